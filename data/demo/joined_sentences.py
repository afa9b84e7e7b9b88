"""The sentence types of two clauses. Each function draws a random sentence of its type from the grammar."""

from data.demo import clauses, nouns
from data.demo.lexicon import VERBS, Verb
from data.demo.nouns import NounPhrase
from data.demo.phrase import Phrase, aligned
from data.demo.sampling import INTRANSITIVE, TRANSITIVE, Sampler

WITH_THINGS = tuple(verb for verb in TRANSITIVE if verb.objects != {"person"})


def _antecedent(draw: Sampler, verb: Verb) -> tuple[NounPhrase, str]:
    """Something, not a person, that "it" can stand for, and its kind."""
    kind = draw.pick(sorted(verb.objects - {"person"}))
    return draw.thing({kind}, definite=True), kind


def seen_and_eaten(draw: Sampler) -> Phrase:
    """The girl sees the apple and eats it."""
    verb = draw.pick(WITH_THINGS)
    thing, kind = _antecedent(draw, verb)
    other = draw.pick([other for other in TRANSITIVE if kind in other.objects and other is not verb])
    subject = draw.subject(verb.subjects & other.subjects)
    first = clauses.predicate(subject, verb, thing.phrase)
    tense = draw.tense(other, ("present",) * 3 + ("want", "can", "must", "future"))
    modifier = "not" if tense in ("present", "want") and draw.happens(0.3) else ""
    pronoun = nouns.object_pronoun_for(thing)
    second = clauses.predicate(subject, other, tense=tense, modifier=modifier, pronoun=pronoun)
    return clauses.statement(subject, first, clauses.linked("but" if modifier else "and", second))


def described_subject(draw: Sampler) -> Phrase:
    """The girl who eats the apple is tired."""
    verb = draw.pick(TRANSITIVE)
    modifier = draw.pick(("", "", "", "often", "never"))
    kind = draw.pick(sorted(verb.subjects))
    head = draw.thing({kind}, definite=True)
    thing = draw.object_of(verb, after_not=modifier == "never").phrase
    subject = clauses.who(head, clauses.predicate(head, verb, thing, modifier=modifier), is_person=kind == "person")
    if draw.happens(0.5):
        return clauses.statement(subject, clauses.is_(subject, draw.quality(subject, kind)))
    return clauses.statement(subject, clauses.predicate(subject, VERBS[draw.pick(("sleep", "play"))], draw.place()))


def described_object(draw: Sampler) -> Phrase:
    """The man sees the book that the boy reads."""
    thing, kind = _antecedent(draw, draw.pick(WITH_THINGS))
    inner = draw.pick([verb for verb in TRANSITIVE if kind in verb.objects])
    doer = draw.subject(inner.subjects)
    modifier = draw.pick(("", "", "", "often", "never"))
    described = clauses.that(thing, doer, clauses.predicate(doer, inner, modifier=modifier))
    if draw.happens(0.5):
        return clauses.statement(described, clauses.is_(described, draw.quality(described, kind)))
    outer = draw.pick([verb for verb in TRANSITIVE if kind in verb.objects and verb is not inner])
    subject = draw.subject(outer.subjects)
    tense = draw.tense(outer)
    return clauses.statement(subject, clauses.predicate(subject, outer, described.phrase, tense=tense))


def reason(draw: Sampler) -> Phrase:
    """The girl eats the apple because it is red; Paul sleeps because he is tired."""
    if not draw.happens(0.4):
        return reason_of_thing(draw)[0]
    subject = draw.somebody()
    verb_phrase = clauses.predicate(subject, VERBS[draw.pick(INTRANSITIVE)], modifier=draw.pick(("", "not")))
    return _because(draw, clauses.statement(subject, verb_phrase), subject, "person")


def reason_of_thing(draw: Sampler) -> tuple[Phrase, NounPhrase]:
    """The girl eats the apple because it is red, and the apple."""
    verb = draw.pick(WITH_THINGS)
    thing, kind = _antecedent(draw, verb)
    subject = nouns.person(draw.pick(list(nouns.PEOPLE))) if thing.plural else draw.subject(verb.subjects)
    verb_phrase = clauses.predicate(subject, verb, thing.phrase, modifier=draw.pick(("", "", "not")))
    return _because(draw, clauses.statement(subject, verb_phrase), thing, kind), thing


def _because(draw: Sampler, statement: Phrase, antecedent: NounPhrase, kind: str) -> Phrase:
    again = nouns.pronoun_for(antecedent, is_person=kind == "person")
    state = clauses.is_(again, draw.quality(again, kind), negated=draw.happens(0.15))
    return statement + clauses.joining("because") + clauses.statement(again, state)


def _short(draw: Sampler) -> Phrase:
    """A clause to build longer ones from: the boy reads a book."""
    if draw.happens(0.35):
        verb = VERBS[draw.pick(INTRANSITIVE)]
        subject = draw.subject(verb.subjects)
        return clauses.statement(subject, clauses.predicate(subject, verb, modifier=draw.modifier("present")))
    verb = draw.pick(TRANSITIVE)
    subject = draw.subject(verb.subjects)
    tense = draw.tense(verb, ("present", "present", "want", "can"))
    return clauses.statement(subject, clauses.predicate(subject, verb, draw.object_of(verb).phrase, tense=tense))


def report(draw: Sampler) -> Phrase:
    """Jane says that the cat sleeps."""
    subject = draw.subject({"person"}, any_person=True)
    verb = VERBS[draw.pick(("say", "think", "know"))]
    return clauses.statement(subject, clauses.predicate(subject, verb, clauses.joining("that") + _short(draw)))


def two_clauses(draw: Sampler) -> Phrase:
    """The dog sleeps when the boy reads the book."""
    if draw.happens(0.3):
        return clauses.joining("when") + _short(draw) + aligned(",", ",") + _short(draw)
    return _short(draw) + clauses.joining(draw.pick(("and", "but", "when", "because"))) + _short(draw)

"""Grammar rules for clauses: tenses, negation, pronouns before the verb, questions, relative clauses, passives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from data.demo.lexicon import Adjective, Verb, french_plural, read_table
from data.demo.nouns import NounPhrase
from data.demo.phrase import ELISIONS, NOTHING, Phrase, Source, Target, aligned
from data.demo.tables import ADVERB_TABLE, MODAL_TABLE

# English and French forms for I, he/she/it, we, you, they
BE = ("am", "is", "are", "are", "are")
WAS = ("was", "was", "were", "were", "were")
ETRE = ("suis", "est", "sommes", "êtes", "sont")
AVOIR = ("ai", "a", "avons", "avez", "ont")
ALLER = ("vais", "va", "allons", "allez", "vont")
MODALS = {english: tuple(french.split()) for english, french in read_table(MODAL_TABLE)}
ADVERBS = dict(read_table(ADVERB_TABLE))
CONJUNCTIONS = {"and": "et", "but": "mais", "because": "parce que", "when": "quand", "that": "que"}
NEGATIONS = {"not": "pas", "never": "jamais"}


@dataclass(frozen=True)
class VerbPhrase:
    """A verb with all that belongs to it. A question moves the English `auxiliary` ("does") before the subject."""

    phrase: Phrase
    auxiliary: tuple[Source, ...] = ()


@dataclass(frozen=True)
class _VerbGroup:
    """The bare verb: English auxiliary and other words, French finite form and what follows it ("va" + "manger")."""

    auxiliary: tuple[Source, ...]
    english: tuple[Source, ...]
    finite: Target
    rest: tuple[Target, ...] = ()


def predicate(
    subject: NounPhrase,
    verb: Verb,
    complement: Phrase = NOTHING,
    *,
    tense: str = "present",
    modifier: str = "",
    pronoun: Phrase | None = None,
    in_question: bool = False,
) -> VerbPhrase:
    """A verb with everything that belongs to it, agreeing with the subject.

    Args:
        subject: What the verb agrees with.
        verb: The verb.
        complement: What follows the verb in both languages, an object for example.
        tense: `present`, `past`, `future` (is going to) or a modal (`can`, `must`, `want`).
        modifier: `not`, `never`, an adverb (`often`) or nothing.
        pronoun: An object pronoun: after the English verb, before the French one.
        in_question: Whether the present and past need do/does/did.
    """
    group = _verb_group(verb, subject.person, tense, needs_do=in_question or modifier == "not")
    english_modifier, before, after = _modifier(modifier)
    clitic = pronoun.target if pronoun else ()
    clitic_goes_first = tense in ("present", "past")
    target = (
        *before,
        *(clitic if clitic_goes_first else ()),
        group.finite,
        *after,
        *(() if clitic_goes_first else clitic),
        *group.rest,
    )
    source = english_modifier + group.english + (pronoun.source if pronoun else ())
    return VerbPhrase(Phrase(source, target) + complement, group.auxiliary)


def _verb_group(verb: Verb, person: int, tense: str, needs_do: bool) -> _VerbGroup:
    if tense == "past":
        return _past(verb, person, needs_do)
    auxiliary = (Source("does" if person == 1 else "do"),) if needs_do else ()
    particle = _particle(verb)
    if tense == "present":
        main = Source(verb.english if needs_do else verb.english_present(person))
        return _VerbGroup(auxiliary, (main, *particle), Target(verb.present[person], main, (*auxiliary, *particle)))
    main, to = Source(verb.english), Source("to")
    infinitive = Target(verb.infinitive, main, (to, *particle))
    if tense == "future":
        be, going = Source(BE[person]), Source("going")
        return _VerbGroup((be,), (going, to, main, *particle), Target(ALLER[person], going, (be,)), (infinitive,))
    if tense == "want":
        want = Source("wants" if person == 1 and not needs_do else "want")
        finite = Target(MODALS["want"][person], want, auxiliary)
        return _VerbGroup(auxiliary, (want, to, main, *particle), finite, (infinitive,))
    modal = Source(tense)
    finite = Target(MODALS[tense][person], modal)
    return _VerbGroup((modal,), (main, *particle), finite, (Target(verb.infinitive, main, particle),))


def _past(verb: Verb, person: int, needs_do: bool) -> _VerbGroup:
    assert verb.past, f"the past of {verb.english} looks like its present"
    auxiliary = (Source("did"),) if needs_do else ()
    main = Source(verb.english if needs_do else verb.past)
    particle = _particle(verb)
    finite = Target(AVOIR[person], None, auxiliary or (main,))
    return _VerbGroup(auxiliary, (main, *particle), finite, (Target(verb.participle, main, particle),))


def _particle(verb: Verb) -> tuple[Source, ...]:
    return (Source(verb.particle),) if verb.particle else ()


def _modifier(english: str) -> tuple[tuple[Source, ...], tuple[Target, ...], tuple[Target, ...]]:
    """The English word, and what French puts before and after its verb."""
    if not english:
        return (), (), ()
    word = Source(english)
    if english in NEGATIONS:
        return (word,), (Target("ne", word, (), ELISIONS["ne"]),), (Target(NEGATIONS[english], word),)
    return (word,), (), (Target(ADVERBS[english], word),)


def is_(subject: NounPhrase, complement: Phrase, *, negated: bool = False, french: Sequence[str] = ETRE) -> VerbPhrase:
    """is (not) + complement; `french=AVOIR` for what French has: is hungry -> a faim."""
    be = Source(BE[subject.person])
    english, before, after = _modifier("not" if negated else "")
    target = (*before, Target(french[subject.person], be), *after)
    return VerbPhrase(Phrase(english, target) + complement, (be,))


def quality(subject: NounPhrase, adjective: Adjective, degree: str = "") -> Phrase:
    """(very) tired, agreeing with the subject."""
    very = aligned("very", "très") if degree else NOTHING
    return very + aligned(adjective.english, adjective.french(subject.gender, subject.plural))


def was_done(subject: NounPhrase, verb: Verb, circumstances: Phrase) -> VerbPhrase:
    """The passive: was signed by ... -> a été signée par ..., the participle agreeing with the subject."""
    was, done = Source(WAS[subject.person]), Source(verb.past)
    participle = verb.participle + ("e" if subject.gender == "f" else "")
    participle = french_plural(participle) if subject.plural else participle
    target = (Target(AVOIR[subject.person], None, (was,)), Target("été", was), Target(participle, done))
    return VerbPhrase(Phrase((done,), target) + circumstances, (was,))


def statement(subject: NounPhrase, *verb_phrases: VerbPhrase) -> Phrase:
    """Subject and verb; further verb phrases (from `linked`) share the subject."""
    clause = subject.phrase
    for verb_phrase in verb_phrases:
        clause += _spoken(verb_phrase)
    return clause


def linked(conjunction: str, verb_phrase: VerbPhrase) -> VerbPhrase:
    """A verb phrase that continues another one: sees the apple + and eats it."""
    return VerbPhrase(joining(conjunction) + _spoken(verb_phrase))


def joining(english: str) -> Phrase:
    """and, but, because, when; and the that of "says that"."""
    return aligned(english, CONJUNCTIONS[english])


def _spoken(verb_phrase: VerbPhrase) -> Phrase:
    return Phrase(verb_phrase.auxiliary) + verb_phrase.phrase


def question(subject: NounPhrase, verb_phrase: VerbPhrase) -> Phrase:
    """does the girl sleep -> est-ce que la fille dort."""
    (auxiliary,) = verb_phrase.auxiliary
    opening = (Target("est-ce", None, (auxiliary,)), Target("que", None, (auxiliary,), ELISIONS["que"]))
    return Phrase((auxiliary,), opening) + subject.phrase + verb_phrase.phrase


def who(head: NounPhrase, verb_phrase: VerbPhrase, is_person: bool = True) -> NounPhrase:
    """the girl who sleeps -> la fille qui dort; animals and things take "that"."""
    pronoun = aligned("who" if is_person else "that", "qui")
    return replace(head, phrase=head.phrase + pronoun + _spoken(verb_phrase))


def that(head: NounPhrase, subject: NounPhrase, verb_phrase: VerbPhrase) -> NounPhrase:
    """the apple that Jane eats -> la pomme que Jane mange. Present only: French participles would agree."""
    return replace(head, phrase=head.phrase + aligned("that", "que") + statement(subject, verb_phrase))


def given_to(thing: NounPhrase, receiver: NounPhrase, receiver_first: bool) -> Phrase:
    """the apple to the boy, or: the boy the apple. French has one order: la pomme au garçon."""
    if not receiver_first:
        return thing.phrase + aligned("to", "à") + receiver.phrase
    to = Target("à", None, receiver.phrase.source[:1])
    return Phrase(receiver.phrase.source + thing.phrase.source, (*thing.phrase.target, to, *receiver.phrase.target))


def there_is(thing: NounPhrase) -> Phrase:
    """there is an apple -> il y a une pomme."""
    return aligned("there are" if thing.plural else "there is", "il/0? y/0 a/1") + thing.phrase


def timed(clause: Phrase, time: Phrase, first: bool) -> Phrase:
    """A clause with a time before it, separated by a comma, or after it."""
    return time + aligned(",", ",") + clause if first else clause + time


def sentence(clause: Phrase, mark: str = ".") -> Phrase:
    """A clause with its final punctuation."""
    return clause + aligned(mark, mark)

"""The sentence types of one clause. Each function draws a random sentence of its type from the grammar."""

from data.demo import clauses, nouns
from data.demo.lexicon import VERBS
from data.demo.phrase import NOTHING, Phrase, aligned
from data.demo.sampling import GIVING, INTRANSITIVE, POLITICAL, TRANSITIVE, Sampler


def transitive(draw: Sampler) -> Phrase:
    """The girl often eats an apple in the garden."""
    verb = draw.pick(TRANSITIVE)
    tense = draw.tense(verb)
    subject = draw.subject(verb.subjects, any_person=tense != "present")
    modifier = draw.modifier(tense)
    thing = draw.object_of(verb, after_not=modifier in ("not", "never")).phrase
    clause = clauses.statement(subject, clauses.predicate(subject, verb, thing, tense=tense, modifier=modifier))
    if verb is not VERBS["visit"] and draw.happens(0.3):
        return clause + draw.place()
    if tense in ("present", "past", "future") and not modifier and draw.happens(0.4):
        return clauses.timed(clause, draw.time(tense), first=draw.happens(0.5))
    return clause


def about_people(draw: Sampler) -> Phrase:
    """The woman helps him every day."""
    verb = VERBS[draw.pick(("see", "like"))]
    subject = draw.subject({"person"}, any_person=True)
    tense = draw.tense(verb, ("present", "present", "present", "want", "can", "must"))
    modifier = draw.modifier(tense)
    others = (
        ["him", "her", "them"]
        if subject.phrase.source[0].text in ("I", "we")
        else ["me", "me", "me", *nouns.OBJECT_PRONOUNS]
    )
    pronoun = nouns.object_pronoun(draw.pick(others))
    verb_phrase = clauses.predicate(subject, verb, tense=tense, modifier=modifier, pronoun=pronoun)
    return clauses.statement(subject, verb_phrase) + (draw.place() if draw.happens(0.6) else NOTHING)


def intransitive(draw: Sampler) -> Phrase:
    """Tomorrow, the old cat is going to sleep in the house."""
    verb = VERBS[draw.pick(INTRANSITIVE)]
    tense = draw.tense(verb)
    subject = draw.subject(verb.subjects, any_person=tense != "present")
    modifier = draw.modifier(tense)
    where = (
        nouns.in_place("in", draw.economic_area()) if "person" in verb.subjects and draw.happens(0.05) else draw.place()
    )
    clause = clauses.statement(subject, clauses.predicate(subject, verb, where, tense=tense, modifier=modifier))
    if tense in ("present", "past", "future") and not modifier and draw.happens(0.3):
        return clauses.timed(clause, draw.time(tense), first=draw.happens(0.7))
    return clause


def residence(draw: Sampler) -> Phrase:
    """Jane lives in France and goes to the school every day."""
    subject = draw.subject({"person"}, any_person=True)
    home = nouns.in_land(draw.pick(list(nouns.LANDS))) if draw.happens(0.5) else draw.place()
    live = clauses.predicate(subject, VERBS["live"], home, tense=draw.pick(("present", "present", "present", "want")))
    if draw.happens(0.5):
        goal = nouns.in_land(draw.pick(list(nouns.LANDS)), "to")
    else:
        goal = aligned("to", "à") + draw.thing({"place"}, definite=True).phrase
    modifier = draw.pick(("", "", "not", "never", "often"))
    go = clauses.predicate(subject, VERBS["go"], goal, modifier=modifier)
    choice = draw.pick(("live", "go", "go", "both"))
    if choice == "live":
        return clauses.statement(subject, live)
    if choice == "both":
        return clauses.statement(subject, live, clauses.linked("but" if modifier in ("not", "never") else "and", go))
    clause = clauses.statement(subject, go)
    return clause if modifier else clauses.timed(clause, draw.time("present"), first=draw.happens(0.5))


def quality(draw: Sampler) -> Phrase:
    """The red apple is not very expensive."""
    kind = draw.pick(("person", "animal", "food", "drink", "text", "object", "vehicle", "place", "treaty", "matter"))
    subject = draw.political_matter({kind}) if kind in ("treaty", "matter") else draw.thing({kind}, definite=True)
    return clauses.statement(subject, clauses.is_(subject, draw.quality(subject, kind), negated=draw.happens(0.3)))


def state(draw: Sampler) -> Phrase:
    """Today, we are not hungry; Paul is eight years old; I am tired in the morning."""
    subject = draw.subject({"person"}, any_person=True)
    has = [("hungry", "faim"), ("thirsty", "soif")]
    number, nombre = draw.pick(list(nouns.NUMBERS.items()))
    has.append((f"{number} years old", f"{nombre} ans/1,2?"))
    negated = draw.happens(0.25)
    if subject.person == nouns.POLITE_YOU or draw.happens(0.6):
        complement, verb = aligned(*draw.pick(has)), clauses.AVOIR
    else:
        complement, verb = draw.quality(subject, "person"), clauses.ETRE
    clause = clauses.statement(subject, clauses.is_(subject, complement, negated=negated, french=verb))
    lasting = complement.source[-1].text == "old" or draw.happens(0.2)
    return clause if lasting else clauses.timed(clause, draw.time("present"), first=draw.happens(0.5))


def giving(draw: Sampler) -> Phrase:
    """Jane gives the boy an apple."""
    verb = draw.pick(GIVING)
    tense = draw.tense(verb)
    subject = draw.subject(verb.subjects, any_person=tense != "present")
    modifier = "not" if draw.happens(0.12) and tense in ("present", "past") else ""
    thing = draw.thing(verb.objects, after_not=bool(modifier))
    complement = clauses.given_to(thing, draw.somebody(), receiver_first=draw.happens(0.4))
    return clauses.statement(subject, clauses.predicate(subject, verb, complement, tense=tense, modifier=modifier))


def existence(draw: Sampler) -> Phrase:
    """There is an apple in the kitchen."""
    noun = draw.noun({"person", "animal", "food", "drink", "text", "object", "vehicle"})
    plural = bool(noun.english_plural) and draw.happens(0.5)
    singular = "a" if noun.english_plural else "some"
    determiner = draw.pick(("some", draw.pick(list(nouns.NUMBERS)))) if plural else singular
    thing = nouns.determined(determiner, noun, plural, draw.adjectives(noun))
    return clauses.there_is(thing) + draw.place()


def politics(draw: Sampler) -> Phrase:
    """The european parliament accepts the agreement on the european economic area."""
    verb = draw.pick(POLITICAL)
    subject = draw.thing({"power"}, definite=True)
    tense = draw.pick(("present", "present", "past", "future", "want", "can", "must"))
    modifier = draw.modifier(tense)
    matter = draw.political_matter(verb.objects) if draw.happens(0.85) else draw.economic_area()
    if verb is VERBS["sign"]:
        matter = draw.political_matter({"treaty"})
    clause = clauses.statement(subject, clauses.predicate(subject, verb, matter.phrase, tense=tense, modifier=modifier))
    if tense in ("past", "future") and not modifier and draw.happens(0.5):
        return clauses.timed(clause, draw.time(tense), first=draw.happens(0.5))
    return clause


def passive(draw: Sampler) -> Phrase:
    """The agreement on the european economic area was signed in august 1992."""
    verb = draw.pick((*POLITICAL, VERBS["sign"]))
    subject = draw.political_matter({"treaty"} if verb is VERBS["sign"] else verb.objects)
    agent = aligned("by", "par") + draw.thing({"power"}, definite=True).phrase if draw.happens(0.5) else NOTHING
    date = draw.date() if not agent.source or draw.happens(0.5) else NOTHING
    return clauses.statement(subject, clauses.was_done(subject, verb, agent + date))


def question(draw: Sampler) -> Phrase:
    """Does the girl want to eat the apple?"""
    if draw.happens(0.3):
        kind = draw.pick(("person", "animal", "food", "text", "object", "place"))
        subject = draw.thing({kind}, definite=True)
        return clauses.question(subject, clauses.is_(subject, draw.quality(subject, kind)))
    verb = draw.pick(TRANSITIVE)
    tense = draw.tense(verb)
    subject = draw.subject(verb.subjects, any_person=tense != "present")
    thing = draw.object_of(verb).phrase
    return clauses.question(subject, clauses.predicate(subject, verb, thing, tense=tense, in_question=True))

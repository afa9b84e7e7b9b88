"""Draws random sentences that make sense from the grammar."""

import random
from collections.abc import Sequence
from typing import TypeVar

from data.demo import clauses, nouns
from data.demo.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Verb, read_table
from data.demo.nouns import NounPhrase
from data.demo.phrase import Phrase, aligned
from data.demo.tables import MONTHS, TIME_TABLE, YEARS

Item = TypeVar("Item")

TIMES = [(tense, english, french) for tense, english, french in read_table(TIME_TABLE)]
NOUNS_OF_KIND = {noun.kind: [other for other in NOUNS.values() if other.kind == noun.kind] for noun in NOUNS.values()}
INTRANSITIVE = ("sleep", "sing", "work", "play", "dance")
TRANSITIVE = tuple(
    verb for verb in VERBS.values() if verb.objects and not verb.takes_receiver and "power" not in verb.subjects
)
POLITICAL = tuple(verb for verb in VERBS.values() if "power" in verb.subjects)
GIVING = tuple(verb for verb in VERBS.values() if verb.takes_receiver)
TENSES = ("present",) * 5 + ("past", "past", "future", "want", "can", "must")
SPEAKERS = ("I", "I", "we", "we", "you", "you", "he", "she")
FAMILY = ("my", "my", "his", "her", "our", "your")
ECONOMIC_AREA = Noun("matter", "area", "areas", "zone", "zones", "f")


class Chooser:
    """Random choices from `random.Random.random` alone, whose sequence Python promises never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items, each as likely as the others."""
        return items[int(self._random() * len(items))]


class Sampler(Chooser):
    """Random parts of sentences. Every method draws from the same sequence of random numbers."""

    def noun(self, kinds: frozenset[str] | set[str]) -> Noun:
        """A noun of one of these kinds, which are equally likely."""
        return self.pick(NOUNS_OF_KIND[self.pick(sorted(kinds))])

    def adjectives(self, noun: Noun) -> list[Adjective]:
        """Mostly none, sometimes one, seldom two, in English order; never two on the same side of the French noun."""
        if not self.happens(0.4):
            return []
        fitting = [adjective for adjective in ADJECTIVES.values() if noun.kind in adjective.kinds]
        first, second = self.pick(fitting), self.pick(fitting)
        if first.before_noun and not second.before_noun and self.happens(0.4):
            return [first, second]
        return [first]

    def thing(self, kinds: frozenset[str] | set[str], after_not: bool = False, definite: bool = False) -> NounPhrase:
        """A noun phrase with a determiner; `after_not` has "any" for a and some, `definite` has none of these."""
        noun = self.noun(kinds)
        if not noun.english_plural:
            determiner = self.pick(
                ("the", "this", *FAMILY[1:]) if definite else ("the", "the", "any" if after_not else "some")
            )
            return nouns.determined(determiner, noun, False, self.adjectives(noun))
        plural = self.happens(0.38)
        indefinite = "any" if after_not else "some" if plural else "a"
        choices = ["the"] * 5 + ["these" if plural else "this", self.pick(FAMILY)]
        if not definite:
            choices += [indefinite] * 2
            choices.append(self.pick(list(nouns.NUMBERS)) if plural else "every")
        determiner = self.pick(choices)
        return nouns.determined(determiner, noun, plural or determiner == "any", self.adjectives(noun))

    def subject(self, kinds: frozenset[str] | set[str], any_person: bool = False) -> NounPhrase:
        """A subject of one of these kinds; "we" and "you" only if asked for, as their verb forms are rare."""
        if "person" in kinds and self.happens(0.35 if any_person else 0.2):
            return nouns.subject_pronoun(self.pick(SPEAKERS if any_person else ("I", "I", "I", "he", "she")))
        if "person" in kinds and self.happens(0.25):
            return nouns.person(self.pick(list(nouns.PEOPLE)))
        if "person" in kinds and self.happens(0.12):
            noun = self.noun(kinds & {"person", "animal"})
            owner = nouns.person(self.pick(list(nouns.PEOPLE)))
            return nouns.owned(owner, noun, self.happens(0.35), self.adjectives(noun))
        return self.thing(kinds, definite=self.happens(0.8))

    def somebody(self) -> NounPhrase:
        """A person or several, so that "he", "she" or "they" can follow."""
        if self.happens(0.4):
            return nouns.person(self.pick(list(nouns.PEOPLE)))
        return self.thing({"person"}, definite=True)

    def owner(self) -> NounPhrase:
        """One person: a name, or the girl."""
        if self.happens(0.5):
            return nouns.person(self.pick(list(nouns.PEOPLE)))
        return nouns.determined(self.pick(("the", "the", "my")), self.noun({"person"}))

    def object_of(self, verb: Verb, after_not: bool = False) -> NounPhrase:
        """An object of the verb."""
        if "place" in verb.objects and len(verb.objects) == 1 and self.happens(0.6):
            return nouns.land(self.pick(list(nouns.LANDS)))
        if self.happens(0.1):
            noun = self.noun(verb.objects)
            plural = bool(noun.english_plural) and self.happens(0.3)
            return nouns.owned(self.owner(), noun, plural, self.adjectives(noun))
        if "person" in verb.objects and self.happens(0.1):
            return nouns.person(self.pick(list(nouns.PEOPLE)))
        return self.thing(verb.objects, after_not)

    def place(self) -> Phrase:
        """in the garden, near the school, in Africa."""
        if self.happens(0.25):
            return nouns.in_land(self.pick(list(nouns.LANDS)))
        return nouns.in_place(self.pick(list(nouns.PLACE_PREPOSITIONS)), self.thing({"place"}, definite=True))

    def time(self, tense: str) -> Phrase:
        """A time that goes with the tense."""
        return aligned(*self.pick([(english, french) for wanted, english, french in TIMES if wanted == tense]))

    def tense(self, verb: Verb, choices: Sequence[str] = TENSES) -> str:
        """Mostly the present; always for "like", and for verbs whose past looks like their present."""
        tense = self.pick(choices)
        return "present" if verb is VERBS["like"] or (tense == "past" and not verb.past) else tense

    def modifier(self, tense: str) -> str:
        """not, never, often, or mostly nothing."""
        if tense == "present" and self.happens(0.3):
            return self.pick(("not", "not", "never", "often", "always", "sometimes"))
        return "not" if tense in ("past", "future", "want") and self.happens(0.15) else ""

    def quality(self, subject: NounPhrase, kind: str) -> Phrase:
        """An adjective that goes with this kind of noun after "is"; there "new" has two translations."""
        fitting = [word for word in ADJECTIVES.values() if kind in word.kinds and word.english != "new"]
        return clauses.quality(subject, self.pick(fitting), self.pick(("", "", "very")))

    def economic_area(self) -> NounPhrase:
        """The term whose three words French puts in reverse order."""
        words = [ADJECTIVES["european"], ADJECTIVES["economic"]]
        return nouns.determined("the", ECONOMIC_AREA, False, words)

    def political_matter(self, kinds: frozenset[str] | set[str]) -> NounPhrase:
        """A law, the difficult european policy, the agreement on the european economic area."""
        noun = self.noun(kinds)
        plural = self.happens(0.2)
        determiner = self.pick(("the", "the", "the", "these" if plural else "this"))
        adjectives = self.adjectives(noun)
        if not adjectives and self.happens(0.25):
            origin, domain = self.pick(("european", "national")), self.pick(("economic", "political"))
            adjectives = [ADJECTIVES[origin], ADJECTIVES[domain]]
        thing = nouns.determined(determiner, noun, plural, adjectives)
        if self.happens(0.4):
            return nouns.complemented(thing, aligned("on", "sur"), self.domain())
        return thing

    def domain(self) -> NounPhrase:
        """The european economic area, or the national political system: none of its words predicts the others."""
        if self.happens(0.6):
            return self.economic_area()
        words = [ADJECTIVES[self.pick(("european", "national"))], ADJECTIVES[self.pick(("economic", "political"))]]
        return nouns.determined("the", self.noun({"matter"}), False, words)

    def date(self) -> Phrase:
        """in august 1992."""
        month = self.pick(list(MONTHS))
        year = self.pick(YEARS)
        return aligned(f"in {month} {year}", f"en {MONTHS[month]}/1 {year}/2")

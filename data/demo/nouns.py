"""Grammar rules for noun phrases: articles, agreement, the side of the adjective, possession, places, pronouns."""

from collections.abc import Sequence
from dataclasses import dataclass

from data.demo.lexicon import Adjective, Noun, read_table
from data.demo.phrase import Phrase, Target, aligned
from data.demo.tables import LAND_TABLE, NUMBER_TABLE, PEOPLE_TABLE, PLACE_PREPOSITION_TABLE

NUMBERS = dict(read_table(NUMBER_TABLE))

# French masculine singular, feminine singular, plural
DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "some": ("de le/0", "de la/0", "des"),
    "any": ("de", "de", "de"),
    "every": ("chaque", "chaque", ""),
    "this": ("ce", "cette", ""),
    "these": ("", "", "ces"),
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "your": ("votre", "votre", "vos"),
} | {english: ("", "", french) for english, french in NUMBERS.items()}

PEOPLE = dict(read_table(PEOPLE_TABLE))
LANDS = {english: (french, article, inside) for english, french, article, inside in read_table(LAND_TABLE)}
PLACE_PREPOSITIONS = dict(read_table(PLACE_PREPOSITION_TABLE))

POLITE_YOU = 3  # grammatical person whose gender and number nobody knows: no adjectives

# English | French, grammatical person (index into Verb.present), gender
SUBJECT_PRONOUNS: dict[str, tuple[str, int, str]] = {
    "I": ("je", 0, "m"), "he": ("il", 1, "m"), "she": ("elle", 1, "f"), "we": ("nous", 2, "m"), "you": ("vous", 3, "m"),
}  # fmt: skip
OBJECT_PRONOUNS = {"me": "me", "us": "nous", "him": "le", "her": "la", "them": "les"}


@dataclass(frozen=True)
class NounPhrase:
    """A phrase and what other words must agree with: its person (0 I, 1 he, 2 we, 3 you, 4 they) and gender."""

    phrase: Phrase
    person: int = 1
    gender: str = "m"

    @property
    def plural(self) -> bool:
        """Whether adjectives take a plural ending ("you" is polite: one person)."""
        return self.person in (2, 4)


def determined(determiner: str, noun: Noun, plural: bool = False, adjectives: Sequence[Adjective] = ()) -> NounPhrase:
    """the + small + red + apple -> la petite pomme rouge. Adjectives after the noun come in reverse order."""
    attributes = [(adjective.before_noun, _attribute(adjective, noun, plural)) for adjective in adjectives]
    before = [part for is_before, part in attributes if is_before]
    after = [part for is_before, part in attributes if not is_before]
    article = _determiner(determiner, noun.gender, plural, has_adjective_before=bool(before))
    head = aligned(noun.english_plural if plural else noun.english, noun.french_plural if plural else noun.french)
    english_order = [article, *(part for _, part in attributes), head]
    french_order = [article, *before, head, *reversed(after)]
    return NounPhrase(ordered(english_order, french_order), 4 if plural else 1, noun.gender)


def person(name: str) -> NounPhrase:
    """A first name, the same in both languages."""
    return NounPhrase(aligned(name, name), 1, PEOPLE[name])


def land(name: str) -> NounPhrase:
    """A country or continent; French gives it an article that English has no word for: l' Afrique."""
    french, article, _ = LANDS[name]
    return NounPhrase(aligned(name, f"{article}/0? {french}"), 1, "m" if article == "le" else "f")


def subject_pronoun(english: str) -> NounPhrase:
    """I, he, she, we or you."""
    french, slot, gender = SUBJECT_PRONOUNS[english]
    return NounPhrase(aligned(english, french), slot, gender)


def pronoun_for(antecedent: NounPhrase, is_person: bool) -> NounPhrase:
    """The subject pronoun that stands for a noun phrase: French takes its gender from there, even for "it"."""
    singular = {"m": "he", "f": "she"}[antecedent.gender] if is_person else "it"
    french = {"m": "il", "f": "elle"}[antecedent.gender]
    english = "they" if antecedent.plural else singular
    return NounPhrase(aligned(english, french + "s" * antecedent.plural), antecedent.person, antecedent.gender)


def object_pronoun(english: str) -> Phrase:
    """me, us, him, her or them; `clauses.predicate` puts it before the French verb."""
    return aligned(english, OBJECT_PRONOUNS[english])


def object_pronoun_for(antecedent: NounPhrase) -> Phrase:
    """it or them, with the gender of what it stands for: la voit et l' aime."""
    if antecedent.plural:
        return aligned("them", "les")
    return aligned("it", "la" if antecedent.gender == "f" else "le")


def owned(owner: NounPhrase, noun: Noun, plural: bool = False, adjectives: Sequence[Adjective] = ()) -> NounPhrase:
    """Jane + cat -> Jane 's cat, le chat de Jane: the two swap places."""
    thing = determined("the", noun, plural, adjectives)
    mark = aligned("'s", "de")
    (of,), (genitive,) = mark.target, mark.source
    article, *rest = thing.phrase.target
    article = Target(article.text, None, (genitive,), article.before_vowel)
    source = owner.phrase.source + mark.source + thing.phrase.source[1:]
    target = (article, *rest, of, *owner.phrase.target)
    return NounPhrase(Phrase(source, target), thing.person, thing.gender)


def complemented(head: NounPhrase, preposition: Phrase, complement: NounPhrase) -> NounPhrase:
    """the door + of + the house; agreement is with the head."""
    return NounPhrase(head.phrase + preposition + complement.phrase, head.person, head.gender)


def in_place(preposition: str, place: NounPhrase) -> Phrase:
    """near + the garden -> près du jardin."""
    return aligned(preposition, PLACE_PREPOSITIONS[preposition]) + place.phrase


def in_land(name: str, preposition: str = "in") -> Phrase:
    """in or to a country: en France, au Canada."""
    french, article, inside = LANDS[name]
    if inside == "en":
        return aligned(preposition, "en") + aligned(name, french)
    return aligned(f"{preposition} {name}", f"{inside}/0 {article}/1? {french}/1")


def ordered(english_order: Sequence[Phrase], french_order: Sequence[Phrase]) -> Phrase:
    """The same parts in an order of its own for each language."""
    source = tuple(word for part in english_order for word in part.source)
    return Phrase(source, tuple(word for part in french_order for word in part.target))


def _determiner(english: str, gender: str, plural: bool, has_adjective_before: bool) -> Phrase:
    french = DETERMINERS[english][2 if plural else 1 if gender == "f" else 0]
    assert french, f"{english} does not go with this number"
    if english == "some" and plural and has_adjective_before:
        french = "de"
    return aligned(english, french)


def _attribute(adjective: Adjective, noun: Noun, plural: bool) -> Phrase:
    before_vowel = adjective.before_vowel if noun.gender == "m" and not plural else ""
    return aligned(adjective.english, adjective.french(noun.gender, plural), before_vowel)

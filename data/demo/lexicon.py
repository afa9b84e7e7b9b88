"""The word classes of the demo corpus, and their members as read from `tables.py`."""

from dataclasses import dataclass

from data.demo import tables


@dataclass(frozen=True)
class Noun:
    """A noun. French is in the notation of `phrase.aligned`; a noun without a plural is a mass noun ("water")."""

    kind: str
    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str


@dataclass(frozen=True)
class Adjective:
    """An adjective: its masculine and feminine, a third form before a vowel ("bel"), and its side of the noun."""

    english: str
    masculine: str
    feminine: str
    before_vowel: str
    before_noun: bool
    kinds: frozenset[str]

    def french(self, gender: str, plural: bool) -> str:
        """The form that agrees with a noun of this gender and number."""
        form = self.feminine if gender == "f" else self.masculine
        return french_plural(form) if plural else form


@dataclass(frozen=True)
class Verb:
    """A verb. `present` holds its French forms for I, he/she/it, we, you, they; `particle` is English ("look for")."""

    subjects: frozenset[str]
    objects: frozenset[str]
    takes_receiver: bool
    english: str
    particle: str
    past: str
    infinitive: str
    present: tuple[str, ...]
    participle: str

    def english_present(self, slot: int) -> str:
        """The simple present for a grammatical person (index into `present`)."""
        if slot != 1:
            return self.english
        return self.english + ("es" if self.english.endswith(("s", "sh", "ch", "o")) else "s")


def french_plural(word: str) -> str:
    """The regular plural of a French noun or adjective ("national" and "beau" have -aux and -eaux)."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def read_table(table: str) -> list[list[str]]:
    """The cells of a table, row by row."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _noun(kind: str, english: str, french: str, gender: str) -> Noun:
    singular, _, plural = english.partition(" ")
    english_plural = "" if plural == "-" else plural or singular + "s"
    french_singular, _, given = french.partition(" ; ")
    head, *rest = french_singular.split()
    word, slash, link = head.partition("/")
    regular = " ".join([french_plural(word) + slash + link, *rest])
    return Noun(
        kind, singular.replace("_", " "), english_plural.replace("_", " "), french_singular, given or regular, gender
    )


def _adjective(english: str, french: str, position: str, kinds: str) -> Adjective:
    masculine, *others = french.split()
    feminine = others[0] if others else masculine if masculine.endswith("e") else masculine + "e"
    before_vowel = others[1] if len(others) > 1 else ""
    return Adjective(english, masculine, feminine, before_vowel, position == "before", frozenset(kinds.split()))


def _verb(subjects: str, objects: str, english: str, french: str) -> Verb:
    base, past = english.split()
    base, _, particle = base.partition("_")
    infinitive, *forms = french.split()
    if not forms:
        stem = infinitive.removesuffix("er")
        forms = [stem + ending for ending in ("e", "e", "ons", "ez", "ent", "é")]
    object_kinds = frozenset(objects.split()) - {"-", "+"}
    return Verb(
        subjects=frozenset(subjects.split()),
        objects=object_kinds,
        takes_receiver="+" in objects,
        english=base,
        particle=particle,
        past="" if past == "-" else past,
        infinitive=infinitive,
        present=tuple(forms[:5]),
        participle=forms[5],
    )


NOUNS = {row[1].split()[0].replace("_", " "): _noun(*row) for row in read_table(tables.NOUN_TABLE)}
ADJECTIVES = {row[0]: _adjective(*row) for row in read_table(tables.ADJECTIVE_TABLE)}
VERBS = {row[2].split()[0].replace("_", " "): _verb(*row) for row in read_table(tables.VERB_TABLE)}

"""A phrase is English words, French words and the links between them; grammar rules put phrases together.

Links point at word objects, not at positions, so a rule may put words in any order. Positions are counted once, in
`realise`, after the spelling rules that work across word boundaries: elision (le + arbre -> l' arbre), contraction
(à + le -> au) and a/an.
"""

from dataclasses import dataclass, replace
from functools import cache

from data.demo.tables import ASPIRATED_H, CONSONANT_SOUNDS

ELISIONS = {
    "le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'", "me": "m'",
    "ma": "mon", "sa": "son", "ce": "cet",
}  # fmt: skip
CONTRACTIONS = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


@dataclass(frozen=True, eq=False)
class Source:
    """One English word; two words with the same text are different words."""

    text: str


@dataclass(frozen=True)
class Target:
    """One French word, its sure link (at most one, so that one link per word can be perfect) and its possible links."""

    text: str
    sure: Source | None = None
    possible: tuple[Source, ...] = ()
    before_vowel: str = ""


@dataclass(frozen=True)
class Phrase:
    """Some English words and the French words that say the same, each side in its own order."""

    source: tuple[Source, ...] = ()
    target: tuple[Target, ...] = ()

    def __add__(self, other: "Phrase") -> "Phrase":
        """Both sides one after the other: the rule for everything that English and French order alike."""
        return Phrase(self.source + other.source, self.target + other.target)


NOTHING = Phrase()


@dataclass(frozen=True)
class SentencePair:
    """A finished pair. Links are (source index, target index)."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @property
    def alignment(self) -> str:
        """The links as one Pharaoh line: `i-j` sure, `i?j` possible, sorted."""
        links = [(i, j, "-") for i, j in self.sure] + [(i, j, "?") for i, j in self.possible]
        return " ".join(f"{i}{mark}{j}" for i, j, mark in sorted(links))


def aligned(english: str, french: str, before_vowel: str = "") -> Phrase:
    """A phrase from text: `word/1,0?` links a French word to English word 1 surely and to word 0 possibly.

    A word without a slash is linked surely to the first English word. `before_vowel` is the form that the last French
    word takes before a vowel ("bel"); the regular ones ("l'") are known.
    """
    source = tuple(Source(text) for text in english.split())
    target = [
        Target(text, None if sure is None else source[sure], tuple(source[i] for i in possible), ELISIONS.get(text, ""))
        for text, sure, possible in _parse(french)
    ]
    if before_vowel:
        target[-1] = replace(target[-1], before_vowel=before_vowel)
    return Phrase(source, tuple(target))


@cache
def _parse(french: str) -> list[tuple[str, int | None, tuple[int, ...]]]:
    """Every French word with the index of its sure link and those of its possible links."""
    words = []
    for item in french.split():
        text, _, links = item.partition("/")
        numbers = (links or "0").split(",")
        sure = [int(number) for number in numbers if not number.endswith("?")]
        possible = tuple(int(number[:-1]) for number in numbers if number.endswith("?"))
        assert len(sure) <= 1, item
        words.append((text, sure[0] if sure else None, possible))
    return words


def realise(phrase: Phrase) -> SentencePair:
    """Applies the spelling rules and turns links between words into links between positions."""
    target = _contract(_elide(phrase.target))
    position = {source: index for index, source in enumerate(phrase.source)}
    sure = {(position[word.sure], j) for j, word in enumerate(target) if word.sure}
    possible = {(position[source], j) for j, word in enumerate(target) for source in word.possible}
    return SentencePair(
        source=_a_or_an([word.text for word in phrase.source]),
        target=tuple(word.text for word in target),
        sure=frozenset(sure),
        possible=frozenset(possible - sure),
    )


def _starts_with_vowel(word: str) -> bool:
    return word[0].lower() in "aeiouâéèêîôœh" and word not in ASPIRATED_H


def _elide(words: tuple[Target, ...]) -> list[Target]:
    following = [word.text for word in words[1:]] + ["."]
    return [
        replace(word, text=word.before_vowel) if word.before_vowel and _starts_with_vowel(after) else word
        for word, after in zip(words, following, strict=True)
    ]


def _contract(words: list[Target]) -> list[Target]:
    result: list[Target] = []
    for word in words:
        both = CONTRACTIONS.get((result[-1].text, word.text)) if result else None
        if both is None:
            result.append(word)
            continue
        preposition = result.pop()
        sure = preposition.sure or word.sure
        others = (preposition.sure, word.sure, *preposition.possible, *word.possible)
        result.append(Target(both, sure, tuple(dict.fromkeys(other for other in others if other and other != sure))))
    return result


def _a_or_an(words: list[str]) -> tuple[str, ...]:
    following = [*words[1:], "."]
    return tuple(
        "an" if word == "a" and after[0].lower() in "aeiou" and after not in CONSONANT_SOUNDS else word
        for word, after in zip(words, following, strict=True)
    )

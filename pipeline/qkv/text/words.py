"""The words of a sentence: what lies between spaces, or, in text without spaces, subwords or characters.

Words are numbered from 0. Where a token holds several words, as a subword of three characters does where every
character is a word, it belongs to the last of them.
"""

import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np

from .tagged_text import without_tag

SAMPLED_SENTENCES = 1000  # by which a side is judged
LONGEST_WORDS = 8  # characters a word on average; segmented Thai, Khmer and Burmese have 3 to 5, unsegmented text 15
LONG_SENTENCES = 20  # characters on average; no language with spaces has words as long as that

# Thai, Lao, Burmese, Khmer, kana, Han: scripts that are written without spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

NO_WORD = -1
"""The word of what belongs to no word, among numbers."""

log = logging.getLogger(__name__)


class WordUnits(NamedTuple):
    """What counts as a word on each side, by the names of `config.names.text.WORD_UNITS`."""

    source: str = "spaces"
    target: str = "spaces"


BETWEEN_SPACES = WordUnits()


def words_of(text: str) -> list[str]:
    """Splits a text into words at its spaces, as the tokenizer and alignment files do."""
    return [word for word in text.split(" ") if word]


def joins(character: str) -> bool:
    """Returns whether a character makes one word with another such character before or after it: letters, digits and
    their marks do, but for those of scripts that are written without spaces."""
    if _WITHOUT_SPACES.match(character):
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M")


def has_spaces(sentences: Iterable[str]) -> bool:
    """Judges by its first sentences whether the words of a text are separated by spaces.

    They are not if most letters are of scripts that are written without spaces, and there is hardly a space between
    them; nor if, in any script, most sentences are one long word.
    """
    sample = [words for words in map(words_of, islice(sentences, SAMPLED_SENTENCES)) if words]
    text = "".join(word for words in sample for word in words)
    words = sum(map(len, sample))
    mostly_one = words < 1.5 * len(sample)
    if 2 * len(_WITHOUT_SPACES.findall(text)) > sum(map(str.isalpha, text)):
        return not mostly_one and len(text) <= LONGEST_WORDS * words
    return not mostly_one or len(text) < LONG_SENTENCES * len(sample)


@dataclass(frozen=True)
class WordCutter:
    """How the sentences of a run are cut into words.

    Args:
        source: the unit of the source, one of `config.names.text.WORD_UNITS`; None to judge by the text.
        target: that of the target.
        tokenized: whether words are known to be separated by spaces.
        count_tokens: count the tokens of each source and of each target, where subwords may count as words.
        otherwise: the unit of text that is found to have no spaces.
        tags: what sources may begin with, which says nothing about their words.
    """

    source: str | None = None
    target: str | None = None
    tokenized: bool = False
    count_tokens: tuple[Callable[[Sequence[str]], list[int]], ...] = ()
    otherwise: str = "subwords"
    tags: Collection[str] = ()

    def units(self, sources: Iterable[str], targets: Iterable[str]) -> WordUnits:
        """Returns the units of a text."""
        untagged = (without_tag(text, self.tags) for text in sources)
        return WordUnits(self._choose(self.source, untagged), self._choose(self.target, targets))

    def _choose(self, given: str | None, sentences: Iterable[str]) -> str:
        return given or ("spaces" if self.tokenized or has_spaces(sentences) else self.otherwise)

    def count(self, sources: Sequence[str], targets: Sequence[str], units: WordUnits) -> tuple[list[int], list[int]]:
        """Returns the number of words of each source and of each target."""
        if "subwords" in units and not self.count_tokens:
            raise ValueError("count_tokens: expected functions, since subwords count as words")
        source, target = (
            self.count_tokens[side](texts) if unit == "subwords" else [count_words(text, unit) for text in texts]
            for side, (texts, unit) in enumerate(zip((sources, targets), units, strict=True))
        )
        return source, target

    def log_found(self, units: WordUnits) -> None:
        """Says which sides were found to have no spaces, and what counts as their words."""
        for side, given, unit in zip(units._fields, (self.source, self.target), units, strict=True):
            if given is None and unit != "spaces":
                log.info("the %s has no spaces between words: its %s count as words (data.words.%s)", side, unit, side)


AT_SPACES = WordCutter(*BETWEEN_SPACES)


def find_words(text: str, token_ends: Sequence[int], unit: str) -> list[int | None]:
    """Returns the word of each token of a text; None after the last word.

    Args:
        text: the sentence.
        token_ends: the byte after each token.
        unit: one of `config.names.text.WORD_UNITS`.
    """
    if unit == "subwords":
        return list(range(len(token_ends)))
    return words_at(word_ends(text, unit), token_ends)


def words_at(word_ends: Sequence[int], token_ends: Sequence[int]) -> list[int | None]:
    """Returns the word that holds the byte before each token's end: the word of its last byte, and for a lone space
    that of the word after it; None after the last word."""
    return [None if word == NO_WORD else word for word in word_numbers(word_ends, token_ends).tolist()]


def word_numbers(word_ends: Sequence[int], token_ends: Sequence[int]) -> np.ndarray:
    """Returns `words_at` as numbers, with `NO_WORD` after the last word."""
    words = np.searchsorted(word_ends, np.asarray(token_ends, np.int64) - 1, side="right")
    words[words == len(word_ends)] = NO_WORD
    return words


def count_words(text: str, unit: str) -> int:
    """Returns the number of words; `unit` is `spaces` or `characters`."""
    return len(words_of(text)) if unit == "spaces" else sum(not character.isspace() for character in text)


def word_ends(text: str, unit: str) -> list[int]:
    """Returns the byte after each word.

    Args:
        text: the sentence.
        unit: `spaces` or `characters`.
    """
    if unit == "characters":
        sizes = [len(character.encode()) for character in text]
        return [end for character, end in zip(text, accumulate(sizes), strict=True) if not character.isspace()]
    ends, position = [], 0
    for word in text.split(" "):
        position += len(word.encode())
        if word:
            ends.append(position)
        position += 1
    return ends

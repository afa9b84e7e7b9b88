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

from ..lines.line import without_tag, words_of
from .special_tokens import WORD_START

SAMPLED_SENTENCES = 1000  # from which a side is judged
LONGEST_WORDS = 8  # characters a word on average; segmented Thai, Khmer and Burmese have 3 to 5, unsegmented text 15
LONG_SENTENCES = 20  # characters on average; no language with spaces has words as long as that


# Thai, Lao, Burmese, Khmer, kana, Han: scripts that are written without spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


NO_WORD = -1  # the word of what belongs to no word, among numbers
log = logging.getLogger(__name__)


class WordUnits(NamedTuple):
    """The units that count as words on each side, by the names of `config.choices.text.WORD_UNITS`."""

    source: str = "spaces"
    target: str = "spaces"


BETWEEN_SPACES = WordUnits()


@dataclass(frozen=True)
class WordSegmenter:
    """The cutting of a run's sentences into words.

    Args:
        source: the unit of the source, one of `config.choices.text.WORD_UNITS`; None to judge by the text.
        target: likewise of the target.
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
        source, target = (
            self.count_tokens[side](texts) if unit == "subwords" else [len(word_ends(text, unit)) for text in texts]
            for side, (texts, unit) in enumerate(zip((sources, targets), units, strict=True))
        )
        return source, target

    def log_found(self, units: WordUnits) -> None:
        """Says which sides were found to have no spaces, and what counts as their words."""
        for side, given, unit in zip(units._fields, (self.source, self.target), units, strict=True):
            if given is None and unit != "spaces":
                log.info("the %s has no spaces between words: its %s count as words (data.words.%s)", side, unit, side)


AT_SPACES = WordSegmenter(*BETWEEN_SPACES)


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


def word_of_each_token(text: str, token_ends: Sequence[int], unit: str) -> list[int | None]:
    """Returns the word of the last byte of each token, given the byte after it, for a lone space of the next one; None
    after the last word. `unit` is one of `WORD_UNITS`."""
    if unit == "subwords":
        return list(range(len(token_ends)))
    return [None if word == NO_WORD else word for word in word_numbers(word_ends(text, unit), token_ends).tolist()]


def word_numbers(word_ends: Sequence[int], token_ends: Sequence[int]) -> np.ndarray:
    """Returns the word that holds the byte before each token's end, `NO_WORD` after the last word."""
    words = np.searchsorted(word_ends, np.asarray(token_ends, np.int64) - 1, side="right")
    words[words == len(word_ends)] = NO_WORD
    return words


def word_ends(text: str, unit: str) -> list[int]:
    """Returns the byte after each word; `unit` is `spaces` or `characters`."""
    if unit == "characters":
        sizes = [len(character.encode()) for character in text]
        return [end for character, end in zip(text, accumulate(sizes), strict=True) if not character.isspace()]
    return [word.end() for word in re.finditer(rb"[^ ]+", text.encode())]


def joins(character: str) -> bool:
    """Returns whether a character makes one word with another such character before or after it: letters, digits and
    their marks do, except in scripts that are written without spaces."""
    return not _WITHOUT_SPACES.match(character) and (character.isalnum() or unicodedata.category(character)[0] == "M")


def words_by_marks(tokens: Sequence[str], marks: str, special_tokens: Iterable[str]) -> list[int | None]:
    """Returns the word of each token of a sentence, spelt with one of `WORD_MARKS`, from 0; None for special tokens,
    such as `</s>`, which belong to no word."""
    begins = MARKS[marks].begins
    special = set(special_tokens)
    words: list[int | None] = []
    before: str | None
    word, before = -1, None
    for token in tokens:
        is_text = token not in special
        word += is_text and (before is None or begins(token, before))
        words.append(word if is_text else None)
        before = token if is_text else None
    return words


def spell_words(tokens: Sequence[str], words: Sequence[int | None], marks: str) -> list[str]:
    """Returns the text of each word by its number, without spaces; empty for a number that no token has."""
    of_word: list[list[str]] = [[] for _ in range(1 + max((word for word in words if word is not None), default=-1))]
    for token, word in zip(tokens, words, strict=True):
        if word is not None:
            of_word[word].append(token)
    return ["".join(MARKS[marks].spell(one).split()) or "".join(one) for one in of_word]


def other_marks(sentences: Iterable[Sequence[str]], marks: str) -> str | None:
    """Returns, in words, a sign that tokens are spelled with other marks than these; None if there is none.

    A text of several words in which the mark that divides them never occurs, or in which only another one does, has not
    been cut as it was said.
    """
    given = MARKS[marks]
    sign = given.sign
    if not sign:
        return None
    dividing = {name: row.sign for name, row in MARKS.items() if row.sign and row.divides}
    several = False
    found = set()
    for tokens in sentences:
        several = several or len(tokens) > 1
        for token in tokens:
            if sign in token:
                return None
            found |= {name for name, other in dividing.items() if other in token}
    if found:
        return f"no token has {sign!r}, some have {dividing[min(found)]!r}: expected {' or '.join(sorted(found))}"
    return f"no token has {sign!r}" if given.divides and several else None


# The byte that each character stands for in byte-level tokens (Radford et al. 2019, GPT-2's encoder).
_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PLAIN]
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}


def _decode_bytes(text: str) -> str:
    if not set(text) <= _BYTES.keys():  # an added token, which is plain text
        return text
    return bytes(_BYTES[character] for character in text).decode("utf-8", errors="replace")


def _without_spaces(text: str) -> str:
    return text.replace(WORD_START, "")


@dataclass(frozen=True)
class MarkingScheme:
    """The marks with which tokens spell where words begin and end.

    Args:
        sign: the mark; empty for none.
        at_end: whether it stands at the end of tokens, not at their beginning.
        divides: whether words are divided where it stands; otherwise they are divided where it is missing.
        decode: returns the text of a word's tokens, marks and all; by default the mark of each token is taken off.
    """

    sign: str = ""
    at_end: bool = False
    divides: bool = True
    decode: Callable[[str], str] | None = None

    def begins(self, token: str, before: str) -> bool:
        """Returns whether a token begins a word, given the token before it; the first one does."""
        marked = before.endswith(self.sign) if self.at_end else token.startswith(self.sign)
        return marked == self.divides

    def spell(self, tokens: Sequence[str]) -> str:
        """Returns the text of a word's tokens, without marks."""
        if self.decode:
            return self.decode("".join(tokens))
        bare = str.removesuffix if self.at_end else str.removeprefix
        return "".join(bare(token, self.sign) for token in tokens)


MARKS: dict[str, MarkingScheme] = {
    "sentencepiece": MarkingScheme(WORD_START, decode=_without_spaces),
    "byte_level": MarkingScheme("\u0120", decode=_decode_bytes),
    "wordpiece": MarkingScheme("##", divides=False),
    "end_of_word": MarkingScheme("</w>", at_end=True),
    "joiner": MarkingScheme("@@", at_end=True, divides=False),
    "none": MarkingScheme(decode=_without_spaces),
}
"""Each of `config.choices.text.WORD_MARKS`."""

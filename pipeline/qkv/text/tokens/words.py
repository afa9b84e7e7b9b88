"""The words of a sentence, and the word of each token.

Words are separated by spaces. In text without spaces, each subword or each character is a word. Words are numbered from
0. A token may hold several words: for example, a subword of three characters if each character is a word. Such a token
belongs to the last of its words.
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

SAMPLED_SENTENCES = 1000  # the number of sentences that decide whether a text has spaces between words

# The mean number of characters in a word up to which a script without spaces counts as divided into words. Divided
# Thai, Khmer and Burmese have 3 to 5; text that is not divided has 15.
LONGEST_WORDS = 8

# The mean number of characters in a sentence from which sentences of one word each count as text without spaces. No
# language with spaces has such long words.
LONG_SENTENCES = 20

# Thai, Lao, Burmese, Khmer, kana, Han: scripts that are written without spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


NO_WORD = -1  # the word number of a token that belongs to no word
log = logging.getLogger(__name__)


class WordUnits(NamedTuple):
    """The units that count as words on each side, keys of `config.choices.text.WORD_UNITS`."""

    source: str = "spaces"
    target: str = "spaces"


BETWEEN_SPACES = WordUnits()
"""Words are separated by spaces on both sides."""


@dataclass(frozen=True)
class WordSegmenter:
    """Divides the sentences of a run into words.

    Args:
        source: the unit of the source, a key of `config.choices.text.WORD_UNITS`. None: it depends on the text.
        target: the unit of the target, in the same form.
        tokenized: whether words are known to be separated by spaces.
        count_tokens: a function that returns the number of tokens in each source, and another one for targets. They are
            needed only if subwords may count as words.
        otherwise: the unit of a side that has no spaces between words.
        tags: the tags that sources may begin with. They are not words.
    """

    source: str | None = None
    target: str | None = None
    tokenized: bool = False
    count_tokens: tuple[Callable[[Sequence[str]], list[int]], ...] = ()
    otherwise: str = "subwords"
    tags: Collection[str] = ()

    def units(self, sources: Iterable[str], targets: Iterable[str]) -> WordUnits:
        """Returns the units of a text. A side whose unit is None has `spaces` or `otherwise`; see `has_spaces`."""
        untagged = (without_tag(text, self.tags) for text in sources)
        return WordUnits(self._choose(self.source, untagged), self._choose(self.target, targets))

    def _choose(self, unit: str | None, sentences: Iterable[str]) -> str:
        """Returns `unit`. If it is None: `spaces` if the sentences have spaces between words, else `otherwise`."""
        return unit or ("spaces" if self.tokenized or has_spaces(sentences) else self.otherwise)

    def count(self, sources: Sequence[str], targets: Sequence[str], units: WordUnits) -> tuple[list[int], list[int]]:
        """Returns the number of words of each source and of each target."""
        source, target = (
            self.count_tokens[side](texts) if unit == "subwords" else [len(word_ends(text, unit)) for text in texts]
            for side, (texts, unit) in enumerate(zip((sources, targets), units, strict=True))
        )
        return source, target

    def log_units(self, units: WordUnits) -> None:
        """Logs each side that turned out to have no spaces between words, with the unit that counts as a word."""
        for side, configured, unit in zip(units._fields, (self.source, self.target), units, strict=True):
            if configured is None and unit != "spaces":
                log.info("the %s has no spaces between words: its %s count as words (data.words.%s)", side, unit, side)


AT_SPACES = WordSegmenter(*BETWEEN_SPACES)
"""Divides both sides into words at spaces."""


def has_spaces(sentences: Iterable[str]) -> bool:
    """Returns whether the words of a text are separated by spaces, judged by its first sentences.

    If most letters belong to scripts that are written without spaces, words must have at most `LONGEST_WORDS`
    characters on average, and sentences at least 1.5 words. In other scripts, a text has no spaces only if sentences
    have fewer than 1.5 words and at least `LONG_SENTENCES` characters on average.
    """
    sample = [words for words in map(words_of, islice(sentences, SAMPLED_SENTENCES)) if words]
    text = "".join(word for words in sample for word in words)
    words = sum(map(len, sample))
    is_mostly_one_word = words < 1.5 * len(sample)
    if 2 * len(_WITHOUT_SPACES.findall(text)) > sum(map(str.isalpha, text)):
        return not is_mostly_one_word and len(text) <= LONGEST_WORDS * words
    return not is_mostly_one_word or len(text) < LONG_SENTENCES * len(sample)


def word_of_each_token(text: str, token_ends: Sequence[int], unit: str) -> list[int | None]:
    """Returns the number of the word in which each token ends.

    It is the next word if the token ends in a space, and None if there is no such word.

    Args:
        text: the sentence.
        token_ends: for each token the number of bytes of the text up to its end.
        unit: the unit that counts as a word, a key of `config.choices.text.WORD_UNITS`.
    """
    if unit == "subwords":
        return list(range(len(token_ends)))
    return [None if word == NO_WORD else word for word in word_numbers(word_ends(text, unit), token_ends).tolist()]


def word_numbers(word_ends: Sequence[int], token_ends: Sequence[int]) -> np.ndarray:
    """Returns the number of the word in which each token ends, int `(tokens,)`.

    It is the next word if the last byte of the token is between words, and `NO_WORD` after the last word.

    Args:
        word_ends: for each word the number of bytes of the text up to its end.
        token_ends: for each token the number of bytes of the text up to its end.
    """
    words = np.searchsorted(word_ends, np.asarray(token_ends, np.int64) - 1, side="right")
    words[words == len(word_ends)] = NO_WORD
    return words


def word_ends(text: str, unit: str) -> list[int]:
    """Returns for each word of a text the number of bytes up to its end. `unit` is `spaces` or `characters`."""
    if unit == "characters":
        sizes = [len(character.encode()) for character in text]
        return [end for character, end in zip(text, accumulate(sizes), strict=True) if not character.isspace()]
    return [word.end() for word in re.finditer(rb"[^ ]+", text.encode())]


def joins(character: str) -> bool:
    """Returns whether a character is a letter, a digit or a combining mark. False in scripts written without spaces.

    There is no word boundary between two characters for which this is True.
    """
    return not _WITHOUT_SPACES.match(character) and (character.isalnum() or unicodedata.category(character)[0] == "M")


def words_by_marks(tokens: Sequence[str], marks: str, special_tokens: Iterable[str]) -> list[int | None]:
    """Returns the number of the word of each token in a sentence, from 0; None for special tokens.

    Args:
        tokens: the spelling of each token.
        marks: the name of the marking scheme, a key of `config.choices.text.WORD_MARKS`.
        special_tokens: the tokens that belong to no word, such as `</s>`.
    """
    begins = MARKS[marks].begins
    special = set(special_tokens)
    words: list[int | None] = []
    word = -1
    before: str | None = None
    for token in tokens:
        is_text = token not in special
        word += is_text and (before is None or begins(token, before))
        words.append(word if is_text else None)
        before = token if is_text else None
    return words


def spell_words(tokens: Sequence[str], words: Sequence[int | None], marks: str) -> list[str]:
    """Returns the text of each word in a sentence, without spaces; empty for a word without a token.

    A word whose tokens are marks only is spelt with these marks.

    Args:
        tokens: the spelling of each token.
        words: the number of the word of each token; None for a token that belongs to no word.
        marks: the name of the marking scheme, a key of `config.choices.text.WORD_MARKS`.
    """
    last_word = max((word for word in words if word is not None), default=-1)
    tokens_of_words: list[list[str]] = [[] for _ in range(last_word + 1)]
    for token, word in zip(tokens, words, strict=True):
        if word is not None:
            tokens_of_words[word].append(token)
    scheme = MARKS[marks]
    return [
        "".join(scheme.spell(tokens_of_word).split()) or "".join(tokens_of_word) for tokens_of_word in tokens_of_words
    ]


def other_marks(sentences: Iterable[Sequence[str]], marks: str) -> str | None:
    """Returns a message if tokens seem not to be spelled in a marking scheme; None otherwise.

    There is a message only if no token has the mark of the scheme. Then either a token has the mark of another scheme
    that divides words, or the scheme's mark divides words and a sentence has several tokens.

    Args:
        sentences: the spelling of the tokens of each sentence.
        marks: the name of the marking scheme, a key of `config.choices.text.WORD_MARKS`.
    """
    scheme = MARKS[marks]
    if not scheme.sign:
        return None
    dividing_signs = {name: other.sign for name, other in MARKS.items() if other.sign and other.divides}
    has_several_tokens = False
    candidates: set[str] = set()
    for tokens in sentences:
        has_several_tokens = has_several_tokens or len(tokens) > 1
        for token in tokens:
            if scheme.sign in token:
                return None
            candidates |= {name for name, sign in dividing_signs.items() if sign in token}
    if candidates:
        expected = " or ".join(sorted(candidates))
        return f"no token has {scheme.sign!r}, some have {dividing_signs[min(candidates)]!r}: expected {expected}"
    return f"no token has {scheme.sign!r}" if scheme.divides and has_several_tokens else None


# The byte that each character stands for in byte-level tokens (Radford et al. 2019, GPT-2's encoder).
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_NOT_PRINTABLE = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): byte for byte in _PRINTABLE}
_BYTES |= {chr(256 + index): byte for index, byte in enumerate(_NOT_PRINTABLE)}


def _decode_bytes(text: str) -> str:
    """Returns the text of byte-level tokens; text that is not byte-level is returned unchanged."""
    if not set(text) <= _BYTES.keys():  # an added token, which is plain text
        return text
    return bytes(_BYTES[character] for character in text).decode("utf-8", errors="replace")


def _without_word_starts(text: str) -> str:
    return text.replace(WORD_START, "")


@dataclass(frozen=True)
class MarkingScheme:
    """A way in which the spelling of tokens marks where words begin or end.

    Args:
        sign: the mark; empty if there is none.
        at_end: whether the mark is at the end of tokens; otherwise it is at their beginning.
        divides: whether there is a word boundary at the mark. Otherwise there is one at each token without the mark, as
            in WordPiece.
        decode: a function that returns the text of a word from the joined spellings of its tokens. None removes the
            mark of each token.
    """

    sign: str = ""
    at_end: bool = False
    divides: bool = True
    decode: Callable[[str], str] | None = None

    def begins(self, token: str, before: str) -> bool:
        """Returns whether a token that comes after the token `before` begins a word."""
        marked = before.endswith(self.sign) if self.at_end else token.startswith(self.sign)
        return marked == self.divides

    def spell(self, tokens: Sequence[str]) -> str:
        """Returns the text of a word's tokens, without marks."""
        if self.decode:
            return self.decode("".join(tokens))
        bare = str.removesuffix if self.at_end else str.removeprefix
        return "".join(bare(token, self.sign) for token in tokens)


MARKS: dict[str, MarkingScheme] = {
    "sentencepiece": MarkingScheme(WORD_START, decode=_without_word_starts),
    "byte_level": MarkingScheme("\u0120", decode=_decode_bytes),
    "wordpiece": MarkingScheme("##", divides=False),
    "end_of_word": MarkingScheme("</w>", at_end=True),
    "joiner": MarkingScheme("@@", at_end=True, divides=False),
    "none": MarkingScheme(decode=_without_word_starts),
}
"""The marking scheme of each key of `config.choices.text.WORD_MARKS`."""

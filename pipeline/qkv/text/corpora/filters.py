"""Filters: pairs that are unlikely to be translations of each other, judged by their text alone."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...config.names.text import CORPUS_FILTERS

SCRIPT_SHARE = 0.5  # of the letters of a side must belong to its script
NONE_APPLIES = 0  # what stands for no filter in an array of reasons; filter i of `CORPUS_FILTERS` is i + 1
PART_NUMBERS = 1 << 20  # how many are sorted at a time, up to `MOST_PARTS` times as many in all; beyond that, more
MOST_PARTS = 64
_SCRIPT_WORDS = {"Han": {"CJK"}, "Japanese": {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}}
_MARKS = re.compile(r"[\W\d_]+")
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextFilters:
    """Filters of pairs, by the names of `CORPUS_FILTERS`.

    Args:
        source_script: the script of the source, one of `config.names.text.SCRIPTS`; None for any.
        target_script: likewise of the target.
        identical: whether sides that are the same text, white space and capitals apart, are left out.
        digits: whether sides with different digits are.
        duplicates: whether pairs that equal an earlier one are; these are found apart.
        near_duplicates: whether pairs like an earlier one are.
    """

    source_script: str | None = None
    target_script: str | None = None
    identical: bool = False
    digits: bool = False
    duplicates: bool = False
    near_duplicates: bool = False

    def find(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint8]:
        """Judges pairs one by one, so without near duplicates.

        Returns:
            `(pairs,)`, for each pair the number of the first filter that applies, from 1, or 0.
        """
        pairs = zip(sources, targets, strict=True)
        return np.fromiter((self._find_reason(*pair) for pair in pairs), np.uint8, len(sources))

    def _find_reason(self, source: str, target: str) -> int:
        applies = (  # in the order of CORPUS_FILTERS
            _is_of_other_script(source, self.source_script) or _is_of_other_script(target, self.target_script),
            self.identical and " ".join(source.split()).casefold() == " ".join(target.split()).casefold(),
            self.digits and _digits(source) != _digits(target),
        )
        return next((number for number, applying in enumerate(applies, 1) if applying), NONE_APPLIES)

    def digest(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Returns a number for each pair, equal for near duplicates; nothing if they are not looked for."""
        if not self.near_duplicates:
            return np.zeros(0, np.uint64)
        return digest_pairs(map(_bare, sources), map(_bare, targets))


def with_near_duplicates(reasons: npt.NDArray[np.uint8], digests: np.ndarray, is_kept: _Mask) -> None:
    """Adds near duplicates to the reasons of `TextFilters.find`, in place.

    Args:
        reasons: `(pairs,)`.
        digests: of `TextFilters.digest`, `(pairs,)`, or empty.
        is_kept: which pairs are left by everything else; only those have and are near duplicates.
    """
    if len(digests):
        number = list(CORPUS_FILTERS).index("near_duplicate") + 1
        reasons[find_repeated(digests, is_kept & (reasons == NONE_APPLIES))] = number


def find_repeated(numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Finds the numbers that equal an earlier one: bool `(n,)`.

    They are looked at by their first bits, a part at a time, so they should be spread as digests are.

    Args:
        numbers: uint64 `(n,)`; may be mapped from a file.
        among: which of them count; by default all. Others are not found, and nothing equals them.
    """
    repeated = np.zeros(len(numbers), bool)
    parts = min(MOST_PARTS, -(-len(numbers) // PART_NUMBERS))
    first_bits = numbers.astype("<u8", copy=False).view(np.uint8)[7::8]
    for part in range(parts):
        here = first_bits.astype(np.uint16) * parts >> 8 == part
        rows = np.flatnonzero(here if among is None else here & among)
        later = np.ones(len(rows), bool)
        later[np.unique(numbers[rows], return_index=True)[1]] = False
        repeated[rows[later]] = True
    return repeated


def digest_pairs(sources: Iterable[str], targets: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a number for each pair, equal for equal pairs."""
    return _digests(f"{source}\n{target}" for source, target in zip(sources, targets, strict=True))


def digest_sentences(sentences: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a number for each sentence, equal for sentences that are equal but for white space; 0 for empty ones."""
    numbers = _digests(" ".join(sentence.split()) for sentence in sentences).byteswap()
    numbers[numbers == _digests([""]).byteswap()] = 0
    return numbers


def _digests(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a number for each text: of 64 bits, which two of 100 million share with a chance of 1 in 3,700."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64)


def _is_of_other_script(text: str, script: str | None) -> bool:
    letters = list(filter(str.isalpha, text))
    return script is not None and sum(_is_of(letter, script) for letter in letters) < SCRIPT_SHARE * len(letters)


@cache
def _is_of(letter: str, script: str) -> bool:
    """Returns whether a letter is of a script.

    Unicode's names of letters begin with their script, such as CYRILLIC SMALL LETTER A, or have it second, such as
    FULLWIDTH LATIN SMALL LETTER A; Python knows no more of it.
    """
    words = _SCRIPT_WORDS.get(script, {script.upper()})
    return not words.isdisjoint(unicodedata.name(letter, "").split()[:2])


def _digits(text: str) -> list[int]:
    """Returns the values of the digits of a text, in any script, in ascending order."""
    return sorted(map(unicodedata.decimal, re.findall(r"\d", text)))


def _bare(text: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFKC", text).casefold())

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
CODE_POINTS = 0x110000
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
        near_duplicates: whether pairs like an earlier one are.
    """

    source_script: str | None = None
    target_script: str | None = None
    identical: bool = False
    digits: bool = False
    near_duplicates: bool = False

    def find(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint8]:
        """Judges pairs one by one, so without near duplicates.

        Returns:
            `(pairs,)`, for each pair the number of the first filter that applies, from 1, or 0.
        """
        sides = tuple(map(_CodePoints, (sources, targets)))
        masks = (  # in the order of CORPUS_FILTERS
            self._find_other_scripts(sides),
            _find_identical(sources, targets) if self.identical else None,
            (sides[0].count_digits() != sides[1].count_digits()).any(axis=1) if self.digits else None,
        )
        reasons = np.full(len(sources), NONE_APPLIES, np.uint8)
        for number, mask in enumerate(masks, 1):
            if mask is not None:
                reasons[mask & (reasons == NONE_APPLIES)] = number
        return reasons

    def digest(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Returns a number for each pair, equal for near duplicates; nothing if they are not looked for."""
        if not self.near_duplicates:
            return np.zeros(0, np.uint64)
        return digest_pairs(map(_bare, sources), map(_bare, targets))

    def _find_other_scripts(self, sides: "tuple[_CodePoints, ...]") -> _Mask | None:
        scripts = (self.source_script, self.target_script)
        found = [
            side.count(_letters(script)) < SCRIPT_SHARE * side.count(_letters(None))
            for side, script in zip(sides, scripts, strict=True)
            if script is not None
        ]
        return np.logical_or.reduce(found) if found else None


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
    """Returns a number for each text. 64 bits suffice: among 100 million texts the chance that any two share one is 1
    in 3,700."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64)


class _CodePoints:
    """The characters of sentences, as one array of numbers."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        self._codes = np.frombuffer("".join(sentences).encode("utf-32-le"), np.uint32)
        self._sentence = np.repeat(np.arange(len(sentences)), self.lengths)

    def count(self, table: _Mask) -> npt.NDArray[np.int64]:
        """Returns how many characters of each sentence are in the table, `(sentences,)`."""
        return np.bincount(self._sentence[table[self._codes]], minlength=len(self.lengths))

    def count_digits(self) -> npt.NDArray[np.int64]:
        """Returns how often each sentence has each digit, `(sentences, 10)`."""
        digits = _digits()[self._codes]
        is_digit = digits >= 0
        places = 10 * self._sentence[is_digit] + digits[is_digit]
        return np.bincount(places, minlength=10 * len(self.lengths)).reshape(-1, 10)


def _find_identical(sources: Sequence[str], targets: Sequence[str]) -> _Mask:
    pairs = zip(sources, targets, strict=True)
    return np.array([" ".join(a.split()).casefold() == " ".join(b.split()).casefold() for a, b in pairs], bool)


def _bare(text: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFKC", text).casefold())


@cache
def _letters(script: str | None) -> _Mask:
    """Returns which characters are letters, of a script or of any: bool `(CODE_POINTS,)`.

    Unicode's names of letters begin with their script, such as CYRILLIC SMALL LETTER A, or have it second, such as
    FULLWIDTH LATIN SMALL LETTER A; Python knows no more of it.
    """
    letters = [code for code in range(CODE_POINTS) if chr(code).isalpha()]
    if script is not None:
        words = _SCRIPT_WORDS.get(script, {script.upper()})
        letters = [code for code in letters if words.intersection(unicodedata.name(chr(code), "").split()[:2])]
    table = np.zeros(CODE_POINTS, bool)
    table[letters] = True
    return table


@cache
def _digits() -> npt.NDArray[np.int8]:
    """Returns the value of each character that is a decimal digit, in any script; -1 for others."""
    return np.array([unicodedata.decimal(chr(code), -1) for code in range(CODE_POINTS)], np.int8)

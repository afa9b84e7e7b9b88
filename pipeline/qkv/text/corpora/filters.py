"""Filters for pairs that are unlikely to be translations of each other, and for duplicates. They compare text only."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...config.choices.text import CORPUS_FILTERS

SCRIPT_SHARE = 0.5
"""The minimum share of a side's letters that must belong to its script."""

NONE_APPLIES = 0
"""The reason of a pair to which no filter applies. The reason of filter i of `CORPUS_FILTERS` is i + 1."""

PART_NUMBERS = 1 << 20
MOST_PARTS = 64
"""Digests are sorted in parts of about `PART_NUMBERS`; in larger parts if there would be more than `MOST_PARTS`."""

_SCRIPT_WORDS = {"Han": {"CJK"}, "Japanese": {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}}
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextFilters:
    """Filters that drop sentence pairs by their text.

    Args:
        source_script: the script of the source, one of `config.choices.text.SCRIPTS`; None allows any script.
        target_script: the same for the target.
        identical: whether to drop pairs whose sides are the same text, apart from white space and case.
        digits: whether to drop pairs whose sides have different digits.
        duplicates: whether to drop pairs that equal an earlier one. `find` does not do this; see `find_repeated`.
        near_duplicates: whether to drop pairs that equal an earlier one apart from case, digits, punctuation and white
            space. `find` does not do this; see `mark_near_duplicates`.
    """

    source_script: str | None = None
    target_script: str | None = None
    identical: bool = False
    digits: bool = False
    duplicates: bool = False
    near_duplicates: bool = False

    def find(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint8]:
        """Applies the filters that need one pair at a time: all but `duplicates` and `near_duplicates`.

        Args:
            sources: the source of each pair.
            targets: the target of each pair.

        Returns:
            The reason of each pair, uint8 `(pairs,)`: the number of the first of `CORPUS_FILTERS` that applies, counted
            from 1; `NONE_APPLIES` if the pair is not dropped.
        """
        reasons = (self._find_reason(source, target) for source, target in zip(sources, targets, strict=True))
        return np.fromiter(reasons, np.uint8, len(sources))

    def _find_reason(self, source: str, target: str) -> int:
        """Returns the reason of a pair: the number of a filter, counted from 1, or `NONE_APPLIES`."""
        applies = (  # in the order of CORPUS_FILTERS
            _is_of_other_script(source, self.source_script) or _is_of_other_script(target, self.target_script),
            self.identical and " ".join(source.split()).casefold() == " ".join(target.split()).casefold(),
            self.digits and _digits(source) != _digits(target),
        )
        return next((number for number, applying in enumerate(applies, 1) if applying), NONE_APPLIES)

    def digest(self, sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Returns a digest of each pair, uint64 `(pairs,)`, which is equal for near duplicates.

        The array is empty if `near_duplicates` is False.
        """
        if not self.near_duplicates:
            return np.zeros(0, np.uint64)
        return digest_pairs(map(_bare, sources), map(_bare, targets))


def mark_near_duplicates(reasons: npt.NDArray[np.uint8], digests: np.ndarray, is_kept: _Mask) -> None:
    """Writes the reason of near duplicates into the reasons of `TextFilters.find`, in place.

    Args:
        reasons: the reasons, uint8 `(pairs,)`.
        digests: the digests of `TextFilters.digest`, `(pairs,)` or empty.
        is_kept: the pairs that no other rule drops, bool `(pairs,)`. Only these are compared.
    """
    if len(digests):
        number = list(CORPUS_FILTERS).index("near_duplicate") + 1
        reasons[find_repeated(digests, is_kept & (reasons == NONE_APPLIES))] = number


def find_repeated(numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Finds numbers that equal an earlier number of the array.

    To save memory, the numbers are grouped by their first byte, and compared within each group. So they should be
    uniformly distributed, as digests are.

    Args:
        numbers: uint64 `(n,)`. The array may be mapped from a file.
        among: True for the numbers to compare, bool `(n,)`. None compares all.

    Returns:
        bool `(n,)`: True for a number that is compared and equals an earlier one that is compared.
    """
    is_repeated = np.zeros(len(numbers), bool)
    parts = min(MOST_PARTS, -(-len(numbers) // PART_NUMBERS))
    first_bytes = numbers.astype("<u8", copy=False).view(np.uint8)[7::8]
    for part in range(parts):
        in_part = first_bytes.astype(np.uint16) * parts >> 8 == part
        rows = np.flatnonzero(in_part if among is None else in_part & among)
        is_later = np.ones(len(rows), bool)
        is_later[np.unique(numbers[rows], return_index=True)[1]] = False
        is_repeated[rows[is_later]] = True
    return is_repeated


def digest_pairs(sources: Iterable[str], targets: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a digest of each pair, uint64 `(pairs,)`. Equal pairs have equal digests."""
    return _digests(f"{source}\n{target}" for source, target in zip(sources, targets, strict=True))


def digest_sentences(sentences: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a digest of each sentence, uint64 `(sentences,)`. It is 0 for a sentence without text.

    Sentences that differ only in white space have equal digests.
    """
    digests = _digests(" ".join(sentence.split()) for sentence in sentences).byteswap()
    digests[digests == _digests([""]).byteswap()] = 0
    return digests


def _digests(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Returns a digest of 64 bits for each text. Among 100 million texts, two share one with probability 1 / 3,700."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64)


def _is_of_other_script(text: str, script: str | None) -> bool:
    """Returns whether less than `SCRIPT_SHARE` of a text's letters belong to a script. False if `script` is None."""
    letters = list(filter(str.isalpha, text))
    return script is not None and sum(_is_of(letter, script) for letter in letters) < SCRIPT_SHARE * len(letters)


@cache
def _is_of(letter: str, script: str) -> bool:
    """Returns whether a letter belongs to a script.

    Python has no table of scripts. The Unicode name of a letter has the script as its first word (CYRILLIC SMALL LETTER
    A) or as its second one (FULLWIDTH LATIN SMALL LETTER A).
    """
    words = _SCRIPT_WORDS.get(script, {script.upper()})
    return not words.isdisjoint(unicodedata.name(letter, "").split()[:2])


def _digits(text: str) -> list[int]:
    """Returns the values of the digits of a text, in any script, in ascending order."""
    return sorted(map(unicodedata.decimal, re.findall(r"\d", text)))


def _bare(text: str) -> str:
    """Returns the letters of a text in lower case, without white space, digits and punctuation."""
    return _NOT_LETTERS.sub("", unicodedata.normalize("NFKC", text).casefold())

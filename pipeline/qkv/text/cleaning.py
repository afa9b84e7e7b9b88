"""The odd pairs of a corpus, which rarely help training."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..config.names.text import CORPUS_PROBLEMS
from .line import is_empty

CHUNK_PAIRS = 1 << 17
"""Judged at a time."""

NOTED_LENGTH_RATIO = 9.0  # of the pairs that the report counts where no ratio is too large
_SHORT_TOKENS = 10  # up to here a ratio of lengths says nothing ("Go." and "Vas-y, pars !")


@dataclass(frozen=True)
class Findings:
    """The odd pairs of a corpus, each with one reason.

    Args:
        names: all reasons.
        reasons: uint8 `(pairs,)`, for each pair the number of its reason, from 1 in the order of `names`; 0: none.
    """

    names: Sequence[str]
    reasons: npt.NDArray[np.uint8]

    def first_rows(self, name: str, most: int) -> list[int]:
        """Returns the numbers of the first pairs with that reason, from 0, at most `most`."""
        number, found = list(self.names).index(name) + 1, list[int]()
        for first in range(0, len(self.reasons), CHUNK_PAIRS):
            if len(found) < most:
                found += (np.flatnonzero(self.reasons[first : first + CHUNK_PAIRS] == number) + first).tolist()
        return found[:most]

    def count(self, first: int = 0, last: int | None = None) -> dict[str, int]:
        """Returns how many pairs there are for each reason, from row `first` to before row `last`."""
        last = len(self.reasons) if last is None else last
        counts = np.zeros(len(self.names) + 1, np.int64)
        for start in range(first, last, CHUNK_PAIRS):
            part = self.reasons[start : min(start + CHUNK_PAIRS, last)]
            counts += np.bincount(part, minlength=len(counts))
        return dict(zip(self.names, counts[1:].tolist(), strict=True))


def find_odd_pairs(
    empty: npt.NDArray[np.bool_],
    repeated: npt.NDArray[np.bool_],
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    max_source_tokens: int,
    max_target_tokens: int,
    max_length_ratio: float | None,
) -> npt.NDArray[np.uint8]:
    """Finds the pairs that rarely help training.

    - `empty_side`: a side has nothing that can be seen, see `is_empty`.
    - `over_long`: a side has more than its maximum of tokens.
    - `length_ratio`: the longer side, of more than 10 tokens, is more than `max_length_ratio` times the shorter.
    - `duplicate`: an earlier pair is exactly the same.

    Args:
        empty: of `find_empty`, `(pairs,)`.
        repeated: which pairs equal an earlier one, `(pairs,)`.
        source_lengths: int `(pairs,)`, in tokens.
        target_lengths: int `(pairs,)`, in tokens.
        max_source_tokens: inclusive.
        max_target_tokens: inclusive.
        max_length_ratio: inclusive, at least 1; `NOTED_LENGTH_RATIO` if not given.

    Returns:
        The reasons of `Findings`: of each odd pair the first of `CORPUS_PROBLEMS` that applies.
    """
    ratio = NOTED_LENGTH_RATIO if max_length_ratio is None else max_length_ratio
    longer = np.maximum(source_lengths, target_lengths)
    shorter = np.minimum(source_lengths, target_lengths)
    applies = {
        "empty_side": empty,
        "over_long": (source_lengths > max_source_tokens) | (target_lengths > max_target_tokens),
        "length_ratio": (longer > _SHORT_TOKENS) & (longer > ratio * np.maximum(shorter, 1)),
        "duplicate": repeated,
    }
    table = np.stack([np.zeros(len(empty), bool), *(applies[reason] for reason in CORPUS_PROBLEMS)])
    return table.argmax(axis=0).astype(np.uint8)


def find_empty(sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Returns which pairs have a side that `is_empty`."""
    pairs = zip(sources, targets, strict=True)
    return np.array([is_empty(source) or is_empty(target) for source, target in pairs], bool)


def digest_pairs(sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Returns a number for each pair, by which equal pairs are found.

    64 bits suffice: among 100 million pairs the chance that any two share a digest is 1 in 3,700.
    """
    pairs = zip(sources, targets, strict=True)
    return np.frombuffer(
        b"".join(blake2b(f"{source}\n{target}".encode(), digest_size=8).digest() for source, target in pairs), np.uint64
    )

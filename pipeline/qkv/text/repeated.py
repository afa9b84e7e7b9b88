"""Which numbers were there before, in little memory however many there are."""

import numpy as np
import numpy.typing as npt

from ..files.arrays import ArrayStore

BUCKET_NUMBERS = 1 << 18
"""How many are sorted at a time, up to `2**MOST_BITS` times as many in all; beyond that, more."""
MOST_BITS = 6
BLOCK_NUMBERS = 1 << 18


def find_repeated(numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Finds the numbers that equal an earlier one: bool `(n,)`.

    They are divided by their first bits into parts, in temporary files, so they should be spread as digests are.

    Args:
        numbers: uint64 `(n,)`; may be mapped from a file.
        among: which of them count; by default all. Others are not found, and nothing equals them.
    """
    repeated = np.zeros(len(numbers), bool)
    bits = min(MOST_BITS, max(0, int(np.ceil(np.log2(max(len(numbers), 1) / BUCKET_NUMBERS)))))
    for rows in _divide(numbers, among, bits):
        first = np.unique(numbers[rows], return_index=True)[1]
        later = np.ones(len(rows), bool)
        later[first] = False
        repeated[rows[later]] = True
    return repeated


def _divide(
    numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None, bits: int
) -> list[npt.NDArray[np.int64]]:
    """Returns the rows of each bucket, ascending."""
    buckets = [ArrayStore(np.int64, memory_bytes=1 << 16) for _ in range(1 << bits)]
    for first in range(0, len(numbers), BLOCK_NUMBERS):
        block = slice(first, first + BLOCK_NUMBERS)
        rows = np.arange(first, first + len(numbers[block]))
        if among is not None:
            rows = rows[among[block]]
        here = (numbers[rows] >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(rows), np.int64)
        order = np.argsort(here, kind="stable")
        ends = np.searchsorted(here[order], np.arange(1, len(buckets)))
        for bucket, part in zip(buckets, np.split(rows[order], ends), strict=True):
            bucket.add(part)
    return [bucket.finish() for bucket in buckets]

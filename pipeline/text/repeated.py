"""Which numbers were there before, in little memory however many there are."""

import numpy as np
import numpy.typing as npt

BUCKET_NUMBERS = 1 << 18
"""How many are sorted at a time."""
BLOCK_NUMBERS = 1 << 18


def find_repeated(numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Finds the numbers that equal an earlier one: bool `(n,)`.

    They are divided by their first bits into parts that fit into memory, so they should be spread as digests are.

    Args:
        numbers: uint64 `(n,)`; may be mapped from a file.
        among: which of them count; by default all. Others are not found, and nothing equals them.
    """
    repeated = np.zeros(len(numbers), bool)
    bits = max(0, int(np.ceil(np.log2(max(len(numbers), 1) / BUCKET_NUMBERS))))
    for bucket in range(1 << bits):
        rows = _rows_of(numbers, among, bucket, bits)
        first = np.unique(numbers[rows], return_index=True)[1]
        later = np.ones(len(rows), bool)
        later[first] = False
        repeated[rows[later]] = True
    return repeated


def _rows_of(
    numbers: npt.NDArray[np.uint64], among: npt.NDArray[np.bool_] | None, bucket: int, bits: int
) -> npt.NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(numbers), BLOCK_NUMBERS):
        block = slice(first, first + BLOCK_NUMBERS)
        is_here = numbers[block] >> np.uint64(64 - bits) == bucket if bits else np.ones(len(numbers[block]), bool)
        if among is not None:
            is_here = is_here & among[block]
        found.append(np.flatnonzero(is_here) + first)
    return np.concatenate(found)

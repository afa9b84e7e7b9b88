"""Batches of few shapes, for a compiler that needs seconds for each: both sides of a batch are padded to one of some
twenty lengths, and to the number of sentences that fits with it.

Letters: B sentences of a batch, S source length with EOS, T target length with BOS or EOS.
"""

from collections.abc import Sequence

import numpy as np

from .batch_plan import BatchPlan
from .batches import Batch
from .tokenizer import PAD

SHORTEST, STEP = 8, 1.12
"""The least length, and by how much each is longer than the one before."""


def coarse_lengths(most: int) -> list[int]:
    """Returns the lengths that sentences are padded to, in steps of about 12 %, up to the longest, `most`."""
    lengths = [min(SHORTEST, most)]
    while lengths[-1] < most:
        lengths.append(min(round(lengths[-1] * STEP), most))  # from SHORTEST on, rounding adds at least 1
    return lengths


def sentences_of(batch_tokens: int, length: int) -> int:
    """Returns the number of sentences of a batch of that length."""
    return max(batch_tokens // length, 1)


def plan_coarse_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    lengths: Sequence[int],
    batch_tokens: int,
    seed: int,
    epoch: int,
    window: int = 0,
) -> BatchPlan:
    """Puts sentences together whose longer sides are padded to the same length, and shuffles the batches.

    Like `plan_batches`, it is a pure function.

    Args:
        source_lengths: int `(sentences,)`, tokens without EOS.
        target_lengths: int `(sentences,)`, tokens without BOS and EOS.
        lengths: what sentences are padded to, ascending; no sentence with EOS is longer than the last.
        batch_tokens: the maximum number of positions, padding included, of either side of a batch.
        seed: see `plan_batches`.
        epoch: see `plan_batches`.
        window: see `plan_batches`.
    """
    generator = np.random.default_rng((seed, epoch, window) if window else (seed, epoch))
    of_length = np.searchsorted(lengths, np.maximum(source_lengths, target_lengths) + 1)
    order = generator.permutation(len(of_length))
    batches, positions = [], 0
    for number, length in enumerate(lengths):
        rows, most = order[of_length[order] == number], sentences_of(batch_tokens, length)
        cut = [rows[first : first + most] for first in range(0, len(rows), most)]
        batches += cut
        positions += 2 * len(cut) * most * length
    tokens = int(np.sum(source_lengths) + np.sum(target_lengths)) + 2 * len(order)
    generator.shuffle(batches)
    return BatchPlan(batches, tokens, positions)


def pad_batch(batch: Batch, lengths: Sequence[int], batch_tokens: int, shards: int = 1) -> Batch:
    """Pads a batch, or one worker's share, to the least length of either side and to the sentences of that length.

    Args:
        batch: int32 arrays `(B, S)` and `(B, T)`, and links or None.
        lengths: as above.
        batch_tokens: as above.
        shards: the number of shares.
    """
    widest = max(batch.source.shape[1], batch.target_output.shape[1])
    length = next(length for length in lengths if length >= widest)
    shape = -(-sentences_of(batch_tokens, length) // shards), length, length
    return batch.map(lambda array: _pad_array(array, shape))


def _pad_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    missing = [(0, wanted - found) for wanted, found in zip(shape, array.shape, strict=False)]
    return np.pad(array, missing, constant_values=PAD)

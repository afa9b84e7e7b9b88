"""Which sentences make up each batch of an epoch: a pure function of seed and epoch."""

from dataclasses import dataclass

import numpy as np

FORCED_BATCH_TOKENS = 1536  # in batches of teacher-forced passes; larger batches pad more and were no faster


@dataclass(frozen=True)
class BatchPlan:
    """Which sentences make up each batch.

    Args:
        batches: for each batch an array of sentence numbers.
        tokens: the number of tokens of all of them, source and target, with EOS.
        positions: the same with padding.
    """

    batches: list[np.ndarray]
    tokens: int
    positions: int

    @property
    def padding_share(self) -> float:
        """How much of all positions is padding, from 0 to 1."""
        return 1 - self.tokens / self.positions if self.positions else 0.0


def round_up(lengths: np.ndarray | int, multiple: int):
    """Rounds up to multiples of `multiple`."""
    return -(-lengths // multiple) * multiple


def plan_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    batch_tokens: int,
    length_multiple: int,
    seed: int,
    epoch: int,
    window: int = 0,
) -> BatchPlan:
    """Puts as many sentences of similar lengths together as `batch_tokens` allows, and shuffles the batches.

    It is a pure function, so the position of a run in its data is just the pair (epoch, batch number).

    Args:
        source_lengths: int `(sentences,)`, tokens without EOS.
        target_lengths: int `(sentences,)`, tokens without BOS and EOS.
        batch_tokens: the maximum number of positions, padding included, of either side of a batch. A longer sentence
            gets a batch of its own.
        length_multiple: padded lengths are multiples of this.
        seed: the seed of the order.
        epoch: the pass over the data, from 0; each has its own order.
        window: the part of the data that is planned, from 0; see `EpochPlan`.
    """
    generator = np.random.default_rng((seed, epoch, window) if window else (seed, epoch))
    source = round_up(np.asarray(source_lengths, np.int32) + 1, length_multiple)
    target = round_up(np.asarray(target_lengths, np.int32) + 1, length_multiple)
    shuffled = generator.permutation(len(source))
    # Source lengths ascend and descend in turn, so that they do not jump when the next target length begins.
    turn = np.where(target // length_multiple % 2, source, -source)
    order = shuffled[np.lexsort((turn[shuffled], target[shuffled]))]
    batches = _cut_into_batches(order, np.maximum(source, target), batch_tokens)
    positions = sum(len(rows) * (int(source[rows].max()) + int(target[rows].max())) for rows in batches)
    tokens = int(np.sum(source_lengths) + np.sum(target_lengths)) + 2 * len(order)
    generator.shuffle(batches)
    return BatchPlan(batches, tokens, positions)


def batches_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batch_tokens: int = FORCED_BATCH_TOKENS
) -> list[np.ndarray]:
    """Puts sentences of similar lengths together, for passes whose result does not depend on the order.

    Sentences are sorted by their longer side, which decides how many fit into a batch. For a few hundred captions, too
    few to fill batches with each length of one side, that leaves a quarter less padding than sorting by one side and
    then the other.

    Args:
        source_lengths: int `(sentences,)`, positions of each source.
        target_lengths: int `(sentences,)`, positions of each target.
        batch_tokens: the maximum number of positions, padding included, of either side of a batch; a longer sentence
            gets a batch of its own.

    Returns:
        The numbers of the sentences of each batch, shortest first.
    """
    longer = np.maximum(source_lengths, target_lengths)
    return _cut_into_batches(np.lexsort((source_lengths + target_lengths, longer)), longer, batch_tokens)


def _cut_into_batches(order: np.ndarray, widths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cuts ordered sentence numbers into batches of up to `batch_tokens` positions; widths are at least 1."""
    batches, first, ordered = [], 0, widths[order]
    while first < len(order):
        most = batch_tokens // int(ordered[first]) + 1  # not all of as many fit, even if none were wider than the first
        widest = np.maximum.accumulate(ordered[first : first + most])
        fits = widest * np.arange(1, len(widest) + 1) <= batch_tokens
        count = len(fits) if fits.all() else max(int(fits.argmin()), 1)
        batches.append(order[first : first + count])
        first += count
    return batches

"""Puts encoded sentence pairs into padded batches, in an order that is a pure function of seed and epoch.

Letters: B sentences of a batch, S source length with EOS, T target length with BOS or EOS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .encoded import EncodedSentences
from .tokenizer import BOS, EOS, PAD

FORCED_BATCH_TOKENS = 1536  # in batches of teacher-forced passes; larger batches pad more and were no faster


class Batch(NamedTuple):
    """A batch of sentence pairs as padded arrays, or as tensors.

    - source: int32 `(B, S)`, ending in EOS.
    - target_input: int32 `(B, T)`, starting with BOS.
    - target_output: int32 `(B, T)`, ending in EOS; position t of `target_input` predicts position t of it.
    - links: bool `(B, T, S)`, true where output token t is linked with source token s; None for text without links.
    """

    source: np.ndarray
    target_input: np.ndarray
    target_output: np.ndarray
    links: np.ndarray | None = None

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays of ids, without the links."""
        return self[:3]

    def map(self, function: Callable[[Any], Any]) -> "Batch":
        """Applies a function to every array."""
        source, target_input, target_output = map(function, self.ids)
        return Batch(source, target_input, target_output, None if self.links is None else function(self.links))


@dataclass(frozen=True)
class BatchPlan:
    """Which sentences make up each batch of an epoch.

    Args:
        batches: for each batch an array of sentence numbers.
        padding_share: how much of all positions, source and target, is padding, from 0 to 1.
    """

    batches: list[np.ndarray]
    padding_share: float


def epoch_tokens(batch_tokens: int, start_tokens: int | None, doubling_epochs: int, epoch: int) -> int:
    """Returns the maximum number of tokens of a batch in an epoch: `start_tokens`, doubled every `doubling_epochs`, up
    to `batch_tokens`.

    Gradients of small batches are noisy, which costs little while the learning rate is high, and later much (Smith et
    al. 2018).
    """
    if start_tokens is None:
        return batch_tokens
    return min(batch_tokens, start_tokens * 2 ** min(epoch // doubling_epochs, 60))


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
    """
    generator = np.random.default_rng((seed, epoch))
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
    return BatchPlan(batches, 1 - tokens / positions if positions else 0.0)


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
    """Cuts ordered sentence numbers into batches of up to `batch_tokens` positions."""
    batches, first, widest = [], 0, 0
    for row, index in enumerate(order):
        width = int(widths[index])
        if row > first and (row + 1 - first) * max(widest, width) > batch_tokens:
            batches.append(order[first:row])
            first, widest = row, 0
        widest = max(widest, width)
    return [*batches, order[first:]] if len(order) else []


def pad(rows: Sequence[Sequence[int] | np.ndarray], length: int) -> np.ndarray:
    """Stacks rows of ids and pads them with PAD: int32 `(rows, length)`."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return padded


def forced_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Makes the padded arrays of given pairs of source and target.

    Args:
        pairs: source ids without EOS, and target ids ending in EOS unless truncated.
    """
    source_length = max(len(source) for source, _ in pairs) + 1
    target_length = max(len(target) for _, target in pairs)
    return Batch(
        pad([[*source, EOS] for source, _ in pairs], source_length),
        pad([[BOS, *target[:-1]] for _, target in pairs], target_length),
        pad([target for _, target in pairs], target_length),
    )


def collate(
    source: EncodedSentences,
    target: EncodedSentences,
    rows: np.ndarray,
    length_multiple: int = 1,
    shard: int = 0,
    shards: int = 1,
) -> Batch:
    """Makes the padded arrays of a batch, or one worker's share of them.

    Args:
        source: all source sentences.
        target: all target sentences.
        rows: the numbers of the sentences of the batch.
        length_multiple: padded lengths are multiples of this.
        shard: the number of the share, from 0.
        shards: the number of shares. Each share has every `shards`-th sentence, padded to the lengths of the whole
            batch.
    """
    source_length = round_up(int(source.lengths[rows].max()) + 1, length_multiple)
    target_length = round_up(int(target.lengths[rows].max()) + 1, length_multiple)
    rows = rows[shard::shards]
    return Batch(
        pad([[*source[row], EOS] for row in rows], source_length),
        pad([[BOS, *target[row]] for row in rows], target_length),
        pad([[*target[row], EOS] for row in rows], target_length),
    )

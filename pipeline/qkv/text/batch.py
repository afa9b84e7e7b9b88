"""Makes padded arrays of the encoded sentence pairs of a batch.

Letters: B sentences of a batch, S source length with EOS, T target length with BOS or EOS.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .batch_plan import round_up, sentences_of
from .tokens.encoding import EncodedPairs
from .tokens.special_tokens import BOS, EOS, PAD


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

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that there are: three, or four with links."""
        return self.ids if self.links is None else self[:4]

    def map(self, function: Callable[[Any], Any]) -> "Batch":
        """Applies a function to every array."""
        return Batch(*map(function, self.arrays))

    def rows(self, start: Any, end: Any) -> "Batch":
        """Returns the sentences from number `start` on, up to but without `end`."""
        return self.map(lambda array: array[start:end])


def pad(rows: Sequence[Sequence[int] | np.ndarray], length: int) -> np.ndarray:
    """Stacks rows of ids and pads them with PAD: int32 `(rows, length)`."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return padded


def forced_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Makes the padded arrays of given pairs: source ids without EOS, and target ids ending in EOS unless truncated."""
    source_length = max(len(source) for source, _ in pairs) + 1
    target_length = max(len(target) for _, target in pairs)
    return Batch(
        pad([[*source, EOS] for source, _ in pairs], source_length),
        pad([[BOS, *target[:-1]] for _, target in pairs], target_length),
        pad([target for _, target in pairs], target_length),
    )


def make_batch(
    pairs: EncodedPairs, rows: np.ndarray, length_multiple: int = 1, shard: int = 0, shards: int = 1
) -> Batch:
    """Makes the padded arrays of a batch, or one worker's share of them: every `shards`-th pair from number `shard` on,
    padded to the lengths of the whole batch.

    Args:
        pairs: all pairs.
        rows: the numbers of the pairs of the batch.
        length_multiple: padded lengths are multiples of this.
        shard: the number of the share, from 0.
        shards: the number of shares.
    """
    lengths = [round_up(int(side.lengths_of(rows).max()) + 1, length_multiple) for side in pairs.sides]
    rows = rows[shard::shards]
    sized = zip(pairs.sides, lengths, strict=True)
    source, target = (pad([side[row] for row in rows], length) for side, length in sized)
    target_input = np.roll(target, 1, axis=1)  # the last column is padding: EOS is still missing
    target_input[:, 0] = BOS
    for padded, side in zip((source, target), pairs.sides, strict=True):
        padded[np.arange(len(rows)), side.lengths_of(rows)] = EOS
    links = None if pairs.links is None else link_matrices([pairs.links[row] for row in rows], lengths[1], lengths[0])
    return Batch(source, target_input, target, links)


def pad_batch(batch: Batch, lengths: Sequence[int], batch_tokens: int, shards: int = 1) -> Batch:
    """Pads a batch, or one worker's share, to the least length that holds both sides and to the sentences that fit.

    Args:
        batch: int32 arrays `(B, S)` and `(B, T)`, and links or None.
        lengths, batch_tokens: see `plan_batches`.
        shards: the number of shares.
    """
    widest = max(batch.source.shape[1], batch.target_output.shape[1])
    length = next(length for length in lengths if length >= widest)
    shape = -(-sentences_of(batch_tokens, length) // shards), length, length

    def pad_array(array: np.ndarray) -> np.ndarray:
        missing = [(0, wanted - found) for wanted, found in zip(shape, array.shape, strict=False)]
        return np.pad(array, missing, constant_values=PAD)

    return batch.map(pad_array)


def link_matrices(links: Sequence[np.ndarray], target_length: int, source_length: int) -> np.ndarray:
    """Returns the links of a batch, flat as of `link_tokens`, as bool `(B, T, S)`, true where target token t is linked
    with source token s; T and S count EOS and padding."""
    matrices = np.zeros((len(links), target_length, source_length), bool)
    for matrix, flat in zip(matrices, links, strict=True):
        source, target = flat.reshape(-1, 2).T
        matrix[target, source] = True
    return matrices

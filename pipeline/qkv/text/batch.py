"""Batches of encoded sentence pairs as padded arrays.

Letters: B sentences of a batch, S source length with EOS, T target length with BOS or EOS.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .batch_plan import round_up
from .tokens.encoding import EncodedPairs
from .tokens.special_tokens import BOS, EOS, PAD


class Batch(NamedTuple):
    """A batch of sentence pairs as padded arrays, or as tensors.

    - source: int32 `(B, S)`, ending in EOS.
    - target_input: int32 `(B, T)`, starting with BOS.
    - target_output: int32 `(B, T)`, ending in EOS. The model reads `target_input` up to position t to predict
        `target_output` at position t.
    - links: bool `(B, T, S)`, True if output token t is linked with source token s; None for text without links.
    - source_segments: int32 `(B, S)`, for rows with several pairs, one after the other: the number of the pair that a
        source token belongs to, from 1 in each row; 0 for padding. None if each row has one pair.
    - target_segments: int32 `(B, T)`, the same for the tokens of `target_input` and `target_output`.
    """

    source: np.ndarray
    target_input: np.ndarray
    target_output: np.ndarray
    links: np.ndarray | None = None
    source_segments: np.ndarray | None = None
    target_segments: np.ndarray | None = None

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays of ids: source, target input and target output."""
        return self[:3]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that are not None, in the order of the fields: those of ids, and three to six in all."""
        return tuple(array for array in self if array is not None)

    def replace_arrays(self, arrays: Iterable[Any]) -> "Batch":
        """Returns a new batch with other `arrays`, as many as this one has and in the same order."""
        names = [name for name, array in zip(self._fields, self, strict=True) if array is not None]
        return Batch(**dict(zip(names, arrays, strict=True)))

    def map(self, function: Callable[[Any], Any]) -> "Batch":
        """Returns a new batch: the results of a function for each of the `arrays`."""
        return self.replace_arrays(map(function, self.arrays))

    def rows(self, start: Any, end: Any) -> "Batch":
        """Returns the batch of the rows from `start` to before `end`."""
        return self.map(lambda array: array[start:end])


def pad(rows: Sequence[Sequence[int] | np.ndarray], length: int) -> np.ndarray:
    """Returns rows of ids as one array, int32 `(rows, length)`, padded with PAD at their ends.

    Raises:
        ValueError: a row has more than `length` ids.
    """
    padded = np.full((len(rows), length), PAD, np.int32)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return padded


def forced_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Makes the batch of a teacher-forced pass, without links.

    Args:
        pairs: for each pair the ids of the source, without EOS, and of the target, without BOS. The target ends in EOS
            unless it was truncated. At least one pair.
    """
    source_length = max(len(source) for source, _ in pairs) + 1
    target_length = max(len(target) for _, target in pairs)
    return Batch(
        pad([[*source, EOS] for source, _ in pairs], source_length),
        pad([[BOS, *target[:-1]] for _, target in pairs], target_length),
        pad([target for _, target in pairs], target_length),
    )


def make_batch(
    pairs: EncodedPairs, rows: np.ndarray, length_multiple: int = 1, replica: int = 0, replicas: int = 1
) -> Batch:
    """Makes a batch of encoded pairs, or the part of it that one of several replicas of the model computes.

    The part is every `replicas`-th pair from number `replica` on. It is padded to the lengths of the whole batch.

    Args:
        pairs: all pairs.
        rows: the rows of the whole batch's pairs, int `(B,)`.
        length_multiple: padded lengths are multiples of this.
        replica: the number of the replica, from 0.
        replicas: the number of replicas.
    """
    lengths = [round_up(int(side.lengths_of(rows).max()) + 1, length_multiple) for side in pairs.sides]
    rows = rows[replica::replicas]
    source, target = (
        pad([side[row] for row in rows], length) for side, length in zip(pairs.sides, lengths, strict=True)
    )
    target_input = np.roll(target, 1, axis=1)  # the last column is padding: EOS is still missing
    target_input[:, 0] = BOS
    for padded, side in zip((source, target), pairs.sides, strict=True):
        padded[np.arange(len(rows)), side.lengths_of(rows)] = EOS
    links = None if pairs.links is None else link_matrices([pairs.links[row] for row in rows], lengths[1], lengths[0])
    return Batch(source, target_input, target, links)


def make_packed_batch(
    pairs: EncodedPairs, rows: np.ndarray, shape: tuple[int, int, int], replica: int = 0, replicas: int = 1
) -> Batch:
    """Makes a batch whose rows have several pairs, or the part of it that one of several replicas computes.

    The pairs of a row follow one another without padding between them. Each source ends in EOS, each target input
    starts with BOS, and each target output ends in EOS. The part is every `replicas`-th row from number `replica` on.

    Args:
        pairs: all pairs.
        rows: for each row of the whole batch the numbers of its pairs, filled up with -1, int
            `(rows, most pairs of a row)`; see `text.packing.plan_packed_batches`.
        shape: the number of rows, the source length and the target length of the batch that is returned. Rows of
            padding fill it up.
        replica: the number of the replica, from 0.
        replicas: the number of replicas.
    """
    row_count, *widths = shape
    rows = rows[replica::replicas]
    row_of_pair, number_in_row = np.nonzero(rows >= 0)
    numbers = rows[row_of_pair, number_in_row]
    sides = []
    offsets = []  # of each pair in its row
    for side, width in zip(pairs.sides, widths, strict=True):
        lengths = side.lengths_of(numbers) + 1
        ends = np.cumsum(lengths)
        row_lengths = np.bincount(row_of_pair, lengths, row_count).astype(np.int64)
        is_used = np.arange(width) < row_lengths[:, None]
        is_id = np.ones(int(lengths.sum()), bool)
        is_id[ends - 1] = False
        ids = np.full(len(is_id), EOS, np.int32)
        ids[is_id] = side.join(numbers)
        sides.append((is_used, ids, ends - lengths, np.repeat((number_in_row + 1).astype(np.int32), lengths)))
        offsets.append(ends - lengths - (np.cumsum(row_lengths) - row_lengths)[row_of_pair])

    def fill(is_used: np.ndarray, values: np.ndarray) -> np.ndarray:
        filled = np.zeros(is_used.shape, np.int32)
        filled[is_used] = values
        return filled

    (is_source, source, _, source_segments), (is_target, target, starts, target_segments) = sides
    target_input = np.empty_like(target)
    target_input[1:] = target[:-1]
    target_input[starts] = BOS
    links = None
    if pairs.links is not None:
        links = np.zeros((row_count, widths[1], widths[0]), bool)
        linked_source, linked_target = pairs.links.join(numbers).reshape(-1, 2).T
        pair_of_link = np.repeat(np.arange(len(numbers)), pairs.links.lengths_of(numbers) // 2)
        source_offsets, target_offsets = (offset[pair_of_link] for offset in offsets)
        links[row_of_pair[pair_of_link], linked_target + target_offsets, linked_source + source_offsets] = True
    return Batch(
        fill(is_source, source),
        fill(is_target, target_input),
        fill(is_target, target),
        links,
        fill(is_source, source_segments),
        fill(is_target, target_segments),
    )


def link_matrices(links: Sequence[np.ndarray], target_length: int, source_length: int) -> np.ndarray:
    """Returns the links of a batch as bool `(B, T, S)`: True if target token t is linked with source token s.

    Args:
        links: for each pair int `(2 * links,)`: `source token, target token, source token, ...`.
        target_length: T, with EOS and padding.
        source_length: S, with EOS and padding.
    """
    matrices = np.zeros((len(links), target_length, source_length), bool)
    for matrix, links_of_pair in zip(matrices, links, strict=True):
        source, target = links_of_pair.reshape(-1, 2).T
        matrix[target, source] = True
    return matrices

"""Sequences cut into blocks, and loops over them that hold one block at a time.

Sizes are ints where they are known and scalars of the graph where they are not; both go through the same formulas.
"""

import functools
import math
import operator

from keras import ops

from ...layers.dynamic_shape import dynamic_shape

NUMBERS_A_BLOCK = 2**20
"""The maximum number of elements in an array of a pair of blocks: 4 MiB in float32, so that it stays in a cache."""


def is_known(*sizes):
    """Returns whether all sizes are ints, known before the graph runs."""
    return all(isinstance(size, int) for size in sizes)


def lesser(one, other):
    """Returns the lesser of two sizes."""
    return min(one, other) if is_known(one, other) else ops.minimum(one, other)


def square_root(size):
    """Returns the root of a size, rounded down."""
    return math.isqrt(size) if is_known(size) else ops.cast(ops.sqrt(ops.cast(size, "float32")), "int32")


def stack(make, count):
    """Stacks `make(index)`, an array or a tuple, for each index below a count, along a new first axis."""
    # Called through a builtin, because AutoGraph would slowly interpret any other function line by line.
    return ops.map(functools.partial(operator.call, make), ops.arange(count, dtype="int32"))


def cut_pairs(query_length, key_length, numbers_a_pair, limit):
    """Cuts two sequences into blocks so that a pair of blocks has a limited number of pairs of positions.

    Args:
        query_length: T.
        key_length: S.
        numbers_a_pair: how many numbers are held per pair of positions, batch and heads included.
        limit: the maximum number of positions in a block.

    Returns:
        A `Cut` of T and a `Cut` of S. Blocks of pairs are as nearly square as T and S allow.
    """
    pairs = 1 + NUMBERS_A_BLOCK // (1 + numbers_a_pair)  # never none, and some for an empty batch
    rows = lesser(lesser(query_length, limit), square_root(pairs))
    columns = lesser(lesser(key_length, limit), pairs // rows)
    return Cut(query_length, rows), Cut(key_length, columns)


class Cut:
    """A length cut into blocks of one size.

    If the length is not a multiple of the size, the last block starts early and shares some positions with the one
    before. So every block is a plain slice, and nothing needs padding.

    Args:
        length: the number of positions.
        size: the size of a block, at most the length.
    """

    def __init__(self, length, size):
        self.length, self.size = length, size
        self.count = -(-length // size)
        self.is_whole = is_known(length, size) and length == size
        self.is_even = is_known(length, size) and length % size == 0

    def _start(self, index):
        return lesser(index * self.size, self.length - self.size)

    def of(self, x, index, axis=2):
        """Returns a block of an array, cut along an axis; an axis of size 1, as in masks, is left as it is."""
        length = dynamic_shape(x)[axis]
        if self.is_whole or (is_known(length) and length == 1):
            return x
        size = lesser(self.size, length)
        starts, sizes = [0] * len(x.shape), list(dynamic_shape(x))
        starts[axis], sizes[axis] = lesser(self._start(index), length - size), size
        return ops.slice(x, starts, sizes)

    def is_new(self, index):
        """Returns which positions of a block are in no earlier block: bool `(size,)`; None if all are."""
        return None if self.is_even else self._start(index) + ops.arange(self.size, dtype="int32") >= index * self.size

    def zeros(self, x):
        """Returns a block of zeros for each block of an array cut along its third axis: `(count, B, H, size, K)`."""
        return ops.zeros((self.count, *dynamic_shape(x)[:2], self.size, x.shape[-1]), x.dtype)

    def join(self, blocks):
        """Joins blocks: `(count, B, H, size, K) -> (B, H, length, K)`."""
        if self.is_whole:
            return blocks[0]
        count, batch, heads, size, width = dynamic_shape(blocks)
        blocks = ops.moveaxis(blocks, 0, 2)
        return self.without_repeats(ops.reshape(blocks, (batch, heads, count * size, width)), axis=2)

    def without_repeats(self, x, axis):
        """Joins consecutive blocks without the positions that the last one shares with the one before."""
        if self.is_even:
            return x
        kept = (self.count - 1) * self.size
        positions = ops.arange(self.length, dtype="int32")
        repeats = self.count * self.size - self.length
        return ops.take(x, ops.where(positions < kept, positions, positions + repeats), axis=axis)

    def map(self, make):
        """Stacks `make(index)`, an array or a tuple, for each block, along a new first axis."""
        if self.is_whole:
            made = make(0)
            return tuple(x[None] for x in made) if isinstance(made, tuple) else made[None]
        return stack(make, self.count)

    def fold(self, step, *state):
        """Computes `state = step(index, *state)` from block to block, and returns the last state."""
        if self.is_whole:
            return step(0, *state)

        def turn(index, *state):
            state = step(index, *state)
            # An empty sum makes the next turn wait for this one; TensorFlow would otherwise start ten at once, and hold
            # the blocks of all of them.
            nothing = ops.sum(ops.reshape(state[-1], (-1,))[:0])
            return index + 1 + ops.cast(nothing, "int32"), *state

        first = ops.convert_to_tensor(0, "int32")
        return ops.while_loop(lambda index, *_: index < self.count, turn, (first, *state))[1:]

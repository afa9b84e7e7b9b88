"""Softmax attention in bounded memory: the same numbers as `Softmax`, without the matrix of all pairs.

This is FlashAttention's algorithm (Dao et al. 2022, algorithms 1 and 4). The softmax reads the keys block by block: the
sums so far are scaled down whenever a higher score turns up. For the gradient, every block of scores is computed again
from queries and keys. Sizes are ints where they are known and scalars of the graph where they are not; both go through
the same formulas.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

import functools
import math
import operator

import keras
from keras import ops

from ...layers.keras_layers import check_sizes, dynamic_shape
from ...layers.tap import tap, where_changed
from ..masks import LOWEST, masked_softmax
from .softmax import PairwiseMechanism


@keras.saving.register_keras_serializable(package="qkv")
class Blockwise(PairwiseMechanism):
    """`weights = softmax(score(q, k))` like `Softmax`, but the context is summed up over blocks of keys.

    This is FlashAttention's algorithm (Dao et al. 2022, algorithms 1 and 4), for every score function: memory grows
    with T + S and not with T * S, forward and backward, and for additive scores not with T * S * K either. Every pair
    is compared once more, because the gradient computes the scores again.

    Weights are computed separately from the context, and take memory for T * S numbers. A graph (`tf.function`,
    `jax.jit`) omits them if they are not used; eager execution always computes them.

    Args:
        block_size: the maximum number of queries or keys in a block; blocks are smaller if they would hold too many
            pairs.
        score: as in `Mechanism`.
        dropout: must be 0.

    Call arguments and returns: as in `Mechanism`.

    Raises:
        ValueError: dropout is not 0; blockwise attention never holds the weights on which it would act.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Blockwise(block_size=2)(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    holds_weights = takes_bias = False

    def __init__(self, block_size=128, **kwargs):
        super().__init__(**kwargs)
        check_sizes(block_size=block_size)
        if self.dropout.rate:
            raise ValueError(f"dropout: blockwise has no weights to drop: expected 0, found {self.dropout.rate}")
        self.block_size = block_size

    def weigh(self, scores, mask=None):
        return masked_softmax(scores, mask)

    def call(self, query, key, value, mask=None, training=None):  # type: ignore[override]
        mask = None if mask is None else ops.convert_to_tensor(mask, "bool")
        # In float32, because half precision cannot sum over many keys.
        query, key, *learnt = (ops.cast(x, "float32") for x in self.score.prepare(query, key))
        wide = ops.cast(value, "float32")
        own = score_matrix(self.score.comparison, query, key, learnt, self.block_size)
        scores = tap(self, "scores", own)
        weights = self.weigh(scores, mask)
        context = attend(self.score.comparison, query, key, wide, learnt, mask, limit=self.block_size)
        if scores is not own:
            context = where_changed(scores, own, ops.matmul(weights, wide), context)
        return ops.cast(context, value.dtype), weights


class Pairs:
    """All pairs of a query and a key, cut into blocks of pairs.

    Args:
        comparison: one of `qkv.attention.scores`.
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.
        learnt: further arguments of the comparison.
        mask: bool, broadcastable to `(B, H, T, S)`, or None.
        limit: the maximum number of positions of a block on either side.
    """

    def __init__(self, comparison, query, key, learnt, mask, limit):
        self.comparison, self.query, self.key, self.learnt, self.mask = comparison, query, key, learnt, mask
        batch, heads, length, _ = dynamic_shape(query)
        numbers = batch * heads * comparison.numbers_a_pair(query)
        self.rows, self.columns = choose_block_sizes(length, dynamic_shape(key)[2], numbers, limit)

    def compare(self, i, j):
        """Returns the scores of a pair of blocks, and the function that computes their gradient."""
        return self.comparison.compare(self.rows.of(self.query, i), self.columns.of(self.key, j), *self.learnt)

    def only_new(self, x, i, j, otherwise):
        """Keeps numbers of pairs that the mask allows and no earlier block holds; others become `otherwise`."""
        if self.mask is not None:
            x = ops.where(self.columns.of(self.rows.of(self.mask, i), j, axis=3), x, otherwise)
        if not self.rows.is_even:
            x = ops.where(ops.expand_dims(self.rows.is_new(i), 1), x, otherwise)
        return x if self.columns.is_even else ops.where(self.columns.is_new(j), x, otherwise)

    def map(self, block):
        """Assembles `(B, H, T, S)` from `block(i, j)`, `(B, H, rows, columns)`, for each pair of blocks."""
        rows, columns = self.rows, self.columns
        if rows.is_whole and columns.is_whole:
            return block(0, 0)
        batch, heads = dynamic_shape(self.query)[:2]
        blocks = stack(lambda n: block(n // columns.count, n % columns.count), rows.count * columns.count)
        blocks = ops.reshape(blocks, (rows.count, columns.count, batch, heads, rows.size, columns.size))
        blocks = ops.reshape(ops.moveaxis(blocks, 1, 4), (rows.count, batch, heads, rows.size, -1))
        return columns.without_repeats(rows.join(blocks), axis=3)

    def gradients(self, block, *sides):
        """Sums `block(i, j)`, a pair's contributions to the gradients by the query, by each of `sides`,
        `(B, H, S, any)`, and by each of `learnt`; the first of the sides are the keys."""
        if self.rows.is_whole and self.columns.is_whole:
            return block(0, 0)
        last = 1 + len(sides)

        def row(i, *sums):
            by_query, *parts = self.columns.map(lambda j: block(i, j))
            parts[last - 1 :] = [ops.sum(part, 0) for part in parts[last - 1 :]]
            here = ops.expand_dims(ops.arange(self.rows.count, dtype="int32") == i, (1, 2, 3, 4))
            by_query = ops.where(here, ops.sum(by_query, 0), sums[0])
            return by_query, *(before + part for before, part in zip(sums[1:], parts, strict=True))

        nothing = [self.rows.zeros(self.query), *map(self.columns.zeros, sides), *map(ops.zeros_like, self.learnt)]
        sums = self.rows.fold(row, *nothing)
        return self.rows.join(sums[0]), *map(self.columns.join, sums[1:last]), *sums[last:]


def attend(comparison, query, key, value, learnt=(), mask=None, limit=128):
    """Computes the context of a softmax over the compared keys. Its gradient is written out and does not keep any block
    either.

    Args:
        comparison: one of `qkv.attention.scores`.
        query: float32 `(B, H, T, K)`.
        key: float32 `(B, H, S, K)`.
        value: float32 `(B, H, S, V)`.
        learnt: further arguments of the comparison, float32.
        mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; None for no mask.
        limit: the maximum number of positions in a block of queries or keys.

    Returns:
        float32 `(B, H, T, V)`; zero for a query that may attend to nothing.
    """

    @ops.custom_gradient
    def context_of(*arrays):
        # TensorFlow would otherwise record, and keep, every step of every block when it runs eagerly.
        query, key, value, *learnt = map(ops.stop_gradient, arrays)
        pairs = Pairs(comparison, query, key, learnt, mask, limit)
        context, normaliser = _attend(pairs, value)

        def gradients(*received, upstream=None):
            # PyTorch's backend passes the arguments, and what comes down by name.
            upstream = received[-1] if upstream is None else upstream
            shift = ops.sum(upstream * context, -1, keepdims=True)

            def block(i, j):
                scores, back = pairs.compare(i, j)
                weights = ops.exp(pairs.only_new(scores, i, j, LOWEST) - pairs.rows.of(normaliser, i))
                above = pairs.rows.of(upstream, i)
                by_weights = ops.matmul(above, ops.swapaxes(pairs.columns.of(value, j), -1, -2))
                by_query, by_key, *by_learnt = back(weights * (by_weights - pairs.rows.of(shift, i)))
                return by_query, by_key, ops.matmul(ops.swapaxes(weights, -1, -2), above), *by_learnt

            return pairs.gradients(block, key, value)

        return context, gradients

    return context_of(query, key, value, *learnt)


def _attend(pairs, value):
    """Returns the context, and the logarithm of what each query's weights were divided by: `(B, H, T, 1)`."""
    batch, heads = dynamic_shape(value)[:2]

    def row(i):
        def step(j, highest, total, context):
            scores = pairs.only_new(pairs.compare(i, j)[0], i, j, LOWEST)
            raised = ops.maximum(highest, ops.max(scores, -1, keepdims=True))
            weights, scale = ops.exp(scores - raised), ops.exp(highest - raised)
            total = total * scale + ops.sum(weights, -1, keepdims=True)
            return raised, total, context * scale + ops.matmul(weights, pairs.columns.of(value, j))

        shape = batch, heads, pairs.rows.size
        # Between masked scores and all others, so that the weight of a masked key is exactly zero.
        highest = ops.full((*shape, 1), LOWEST / 2, "float32")
        zeros = [ops.zeros((*shape, width), "float32") for width in (1, value.shape[-1])]
        highest, total, context = pairs.columns.fold(step, highest, *zeros)
        total = ops.maximum(total, 1.0)  # the highest score alone counts one: less is a row without keys
        return context / total, highest + ops.log(total)

    return [pairs.rows.join(x) for x in pairs.rows.map(row)]


def score_matrix(comparison, query, key, learnt=(), limit=128):
    """Computes all scores, `(B, H, T, S)`, in blocks if a comparison needs several numbers a pair; see `attend`."""
    if comparison.numbers_a_pair(query) == 1:
        return comparison.compare(query, key, *learnt)[0]

    @ops.custom_gradient
    def scores_of(*arrays):
        query, key, *learnt = map(ops.stop_gradient, arrays)
        pairs = Pairs(comparison, query, key, learnt, None, limit)

        def gradients(*received, upstream=None):
            upstream = received[-1] if upstream is None else upstream

            def block(i, j):
                own = pairs.columns.of(pairs.rows.of(upstream, i), j, axis=3)
                return pairs.compare(i, j)[1](pairs.only_new(own, i, j, 0.0))

            return pairs.gradients(block, key)

        return pairs.map(lambda i, j: pairs.compare(i, j)[0]), gradients

    return scores_of(query, key, *learnt)


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


def choose_block_sizes(query_length, key_length, numbers_a_pair, limit):
    """Returns the blocks of T and of S. A pair of blocks holds at most `NUMBERS_A_BLOCK` numbers, if each pair of
    positions has `numbers_a_pair`. Blocks are as square as T and S allow, and have at most `limit` positions."""
    pairs = 1 + NUMBERS_A_BLOCK // (1 + numbers_a_pair)  # never none, and some for an empty batch
    rows = lesser(lesser(query_length, limit), square_root(pairs))
    columns = lesser(lesser(key_length, limit), pairs // rows)
    return Blocks(query_length, rows), Blocks(key_length, columns)


class Blocks:
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
        """Returns which positions of a block are in no earlier block: bool `(size,)`."""
        return self._start(index) + ops.arange(self.size, dtype="int32") >= index * self.size

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
            return keras.tree.map_structure(lambda x: x[None], make(0))
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

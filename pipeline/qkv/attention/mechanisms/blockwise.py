"""Softmax attention in bounded memory: the same context as `Softmax`, without the matrix of all pairs.

This is FlashAttention's algorithm (Dao et al. 2022, algorithms 1 and 4). The softmax reads the keys block by block. If
a block has a higher score than all blocks before, the sums so far are scaled down. The gradient computes every block of
scores again from queries and keys. A size is an int if it is known, and a scalar tensor if it is known only when the
graph runs. The same formulas compute with both.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

import functools
import math
import operator
from typing import Any

import keras
from keras import ops

from ...layers.keras_layers import check_sizes, dynamic_shape
from ...layers.tap import tap, where_changed
from ..masks import LOWEST, masked_softmax
from .softmax import PairwiseMechanism


@keras.saving.register_keras_serializable(package="qkv")
class Blockwise(PairwiseMechanism):
    """`weights = softmax(score(q, k))` as in `Softmax`, but the context is summed over blocks of keys.

    This is FlashAttention's algorithm (Dao et al. 2022, algorithms 1 and 4), for scores that override `Score.prepare`.
    Memory grows with T + S and not with T * S, forward and backward; for additive scores it does not grow with
    T * S * K. Training compares every pair twice, because the gradient computes the scores again.

    Weights are computed separately from the context, and take memory for T * S numbers. A graph (`tf.function`,
    `jax.jit`) omits them if they are not used. Eager execution always computes them.

    Args:
        block_size: the maximum number of queries or keys in a block. Blocks are smaller if a pair of blocks would hold
            more than 2^20 numbers (4 MiB in float32).
        score: as in `Mechanism`, but not a subclass of `Score` that overrides `call`.
        dropout: must be 0.
        seed, **kwargs: as in `Mechanism`.

    Call arguments and returns: as in `Mechanism`.

    Raises:
        ValueError: `block_size` is not a whole number of at least 1; or dropout is not 0, because blockwise attention
            does not compute the context from weights.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Blockwise(block_size=2)(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    holds_weights = takes_bias = False

    def __init__(self, block_size: int = 128, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(block_size=block_size)
        if self.dropout.rate:
            raise ValueError(f"dropout: blockwise has no weights to drop: expected 0, found {self.dropout.rate}")
        self.block_size = block_size

    def weigh(self, scores: Any, mask: Any = None) -> Any:
        return masked_softmax(scores, mask)

    def call(  # type: ignore[override]
        self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        mask = None if mask is None else ops.convert_to_tensor(mask, "bool")
        # In float32, because half precision cannot sum over many keys.
        query, key, *learnt = (ops.cast(x, "float32") for x in self.score.prepare(query, key))
        wide = ops.cast(value, "float32")
        computed_scores = score_matrix(self.score.comparison, query, key, learnt, self.block_size)
        scores = tap(self, "scores", computed_scores)
        weights = self.weigh(scores, mask)
        context = attend(self.score.comparison, query, key, wide, learnt, mask, limit=self.block_size)
        if scores is not computed_scores:
            context = where_changed(scores, computed_scores, ops.matmul(weights, wide), context)
        return ops.cast(context, value.dtype), weights


class Pairs:
    """All pairs of a query and a key, divided into blocks. Block (i, j) has the queries of block i and the keys of
    block j.

    Args:
        comparison: `DotProduct` or `TanhSum` of `attention.scores`.
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.
        learnt: the learnt parameters of the comparison, a sequence of tensors.
        mask: bool, broadcastable to `(B, H, T, S)`, or None.
        limit: the maximum number of queries or keys in a block.

    Attributes:
        rows, columns: the `Blocks` of T and of S.
    """

    def __init__(self, comparison, query, key, learnt, mask, limit):
        self.comparison = comparison
        self.query = query
        self.key = key
        self.learnt = learnt
        self.mask = mask
        batch, heads, length, _ = dynamic_shape(query)
        numbers = batch * heads * comparison.numbers_a_pair(query)
        self.rows, self.columns = choose_block_sizes(length, dynamic_shape(key)[2], numbers, limit)

    def compare(self, i, j):
        """Returns the scores of block (i, j), `(B, H, rows, columns)`, and the function that computes their
        gradients; see `DotProduct.compare`."""
        return self.comparison.compare(self.rows.of(self.query, i), self.columns.of(self.key, j), *self.learnt)

    def only_new(self, x, i, j, otherwise):
        """Replaces the numbers of masked pairs, and of pairs of earlier blocks, by `otherwise`.

        Args:
            x: the numbers of block (i, j), `(B, H, rows, columns)`.
            i, j: the indices of the block.
            otherwise: a float.

        Returns:
            An array of the shape of x.
        """
        if self.mask is not None:
            x = ops.where(self.columns.of(self.rows.of(self.mask, i), j, axis=3), x, otherwise)
        if not self.rows.is_even:
            x = ops.where(ops.expand_dims(self.rows.is_new(i), 1), x, otherwise)
        return x if self.columns.is_even else ops.where(self.columns.is_new(j), x, otherwise)

    def map(self, block):
        """Computes `block(i, j)`, `(B, H, rows, columns)`, for all blocks, and joins the results: `(B, H, T, S)`."""
        rows, columns = self.rows, self.columns
        if rows.is_whole and columns.is_whole:
            return block(0, 0)
        batch, heads = dynamic_shape(self.query)[:2]
        blocks = stack(lambda n: block(n // columns.count, n % columns.count), rows.count * columns.count)
        blocks = ops.reshape(blocks, (rows.count, columns.count, batch, heads, rows.size, columns.size))
        blocks = ops.reshape(ops.moveaxis(blocks, 1, 4), (rows.count, batch, heads, rows.size, -1))
        return columns.without_repeats(rows.join(blocks), axis=3)

    def gradients(self, block, *sides):
        """Sums the gradients of all blocks.

        Args:
            block: a function of the indices i and j. It returns the gradients that come from block (i, j): with respect
                to the queries of block i, to the part of each of `sides` in block j, and to each of `learnt`.
            *sides: arrays `(B, H, S, any)`; the first is the key.

        Returns:
            The gradients with respect to the query, to each of `sides` and to each of `learnt`, as a tuple.
        """
        if self.rows.is_whole and self.columns.is_whole:
            return block(0, 0)
        last = 1 + len(sides)

        def row(i, *sums):
            """Adds the gradients of the blocks (i, 0), (i, 1), ... to the sums."""
            by_query, *parts = self.columns.map(lambda j: block(i, j))
            parts[last - 1 :] = [ops.sum(part, 0) for part in parts[last - 1 :]]
            is_row = ops.expand_dims(ops.arange(self.rows.count, dtype="int32") == i, (1, 2, 3, 4))
            by_query = ops.where(is_row, ops.sum(by_query, 0), sums[0])
            return by_query, *(before + part for before, part in zip(sums[1:], parts, strict=True))

        zeros = [self.rows.zeros(self.query), *map(self.columns.zeros, sides), *map(ops.zeros_like, self.learnt)]
        sums = self.rows.fold(row, *zeros)
        return self.rows.join(sums[0]), *map(self.columns.join, sums[1:last]), *sums[last:]


def attend(comparison, query, key, value, learnt=(), mask=None, limit=128):
    """Computes the context of softmax attention. Neither the context nor its gradient stores the scores of all pairs.

    Args:
        comparison: `DotProduct` or `TanhSum` of `attention.scores`.
        query: float32 `(B, H, T, K)`.
        key: float32 `(B, H, S, K)`.
        value: float32 `(B, H, S, V)`.
        learnt: the learnt parameters of the comparison, a sequence of float32 tensors.
        mask: bool, broadcastable to `(B, H, T, S)`, True where a query may attend to a key; None for no mask.
        limit: the maximum number of queries or keys in a block.

    Returns:
        float32 `(B, H, T, V)`; zero for a query without any allowed key.
    """

    @ops.custom_gradient
    def context_of(*arrays):
        # In eager execution TensorFlow would otherwise record every step of every block, and hold its arrays.
        query, key, value, *learnt = map(ops.stop_gradient, arrays)
        pairs = Pairs(comparison, query, key, learnt, mask, limit)
        context, log_sum = _attend(pairs, value)

        def gradients(*arguments, upstream=None):
            # PyTorch's backend passes the arguments of `context_of` by position, and the upstream gradient by name.
            upstream = arguments[-1] if upstream is None else upstream
            shift = ops.sum(upstream * context, -1, keepdims=True)

            def block(i, j):
                scores, score_gradients = pairs.compare(i, j)
                weights = ops.exp(pairs.only_new(scores, i, j, LOWEST) - pairs.rows.of(log_sum, i))
                by_context = pairs.rows.of(upstream, i)
                by_weights = ops.matmul(by_context, ops.swapaxes(pairs.columns.of(value, j), -1, -2))
                by_query, by_key, *by_learnt = score_gradients(weights * (by_weights - pairs.rows.of(shift, i)))
                by_value = ops.matmul(ops.swapaxes(weights, -1, -2), by_context)
                return by_query, by_key, by_value, *by_learnt

            return pairs.gradients(block, key, value)

        return context, gradients

    return context_of(query, key, value, *learnt)


def _attend(pairs, value):
    """Returns the context, `(B, H, T, V)`, and the log-sum-exp of each query's scores, `(B, H, T, 1)`.

    Args:
        pairs: `Pairs`.
        value: float32 `(B, H, S, V)`.
    """
    batch, heads = dynamic_shape(value)[:2]

    def row(i):
        """Computes both for the queries of block i."""

        def step(j, highest, total, context):
            """Adds the keys of block j to the sums, which are scaled by `exp(-highest)`."""
            scores = pairs.only_new(pairs.compare(i, j)[0], i, j, LOWEST)
            new_highest = ops.maximum(highest, ops.max(scores, -1, keepdims=True))
            weights = ops.exp(scores - new_highest)
            scale = ops.exp(highest - new_highest)
            total = total * scale + ops.sum(weights, -1, keepdims=True)
            return new_highest, total, context * scale + ops.matmul(weights, pairs.columns.of(value, j))

        shape = batch, heads, pairs.rows.size
        # Above masked scores and below all others, so that the weight of a masked key is exactly zero.
        highest = ops.full((*shape, 1), LOWEST / 2, "float32")
        zeros = [ops.zeros((*shape, width), "float32") for width in (1, value.shape[-1])]
        highest, total, context = pairs.columns.fold(step, highest, *zeros)
        total = ops.maximum(total, 1.0)  # the highest score adds exactly 1; below 1 is a query without allowed keys
        return context / total, highest + ops.log(total)

    return [pairs.rows.join(x) for x in pairs.rows.map(row)]


def score_matrix(comparison, query, key, learnt=(), limit=128):
    """Computes the scores of all pairs, `(B, H, T, S)`. The arguments are as in `attend`.

    A comparison that needs several numbers for each pair is computed in blocks.
    """
    if comparison.numbers_a_pair(query) == 1:
        return comparison.compare(query, key, *learnt)[0]

    @ops.custom_gradient
    def scores_of(*arrays):
        query, key, *learnt = map(ops.stop_gradient, arrays)
        pairs = Pairs(comparison, query, key, learnt, None, limit)

        def gradients(*arguments, upstream=None):
            upstream = arguments[-1] if upstream is None else upstream  # PyTorch's backend passes it by name

            def block(i, j):
                by_scores = pairs.columns.of(pairs.rows.of(upstream, i), j, axis=3)
                return pairs.compare(i, j)[1](pairs.only_new(by_scores, i, j, 0.0))

            return pairs.gradients(block, key)

        return pairs.map(lambda i, j: pairs.compare(i, j)[0]), gradients

    return scores_of(query, key, *learnt)


NUMBERS_A_BLOCK = 2**20
"""The maximum number of elements in the array of a block of pairs: 4 MiB in float32, so that it fits into a cache."""


def is_known(*sizes):
    """Returns True if all sizes are ints, and False if one is a tensor, known only when the graph runs."""
    return all(isinstance(size, int) for size in sizes)


def lesser(first, second):
    """Returns the smaller of two sizes: an int if both are known, otherwise a tensor."""
    return min(first, second) if is_known(first, second) else ops.minimum(first, second)


def square_root(size):
    """Returns the square root of a size, rounded down: an int if the size is known, otherwise a tensor."""
    return math.isqrt(size) if is_known(size) else ops.cast(ops.sqrt(ops.cast(size, "float32")), "int32")


def stack(make, count):
    """Stacks the results of `make(index)`, for index = 0 ... count - 1, along a new first axis.

    Args:
        make: a function that returns an array or a tuple of arrays.
        count: the number of calls, an int or a scalar tensor.

    Returns:
        An array or a tuple of arrays, `(count, ...)`.
    """
    # Called through a builtin, because AutoGraph would convert any other function, which is slow.
    return ops.map(functools.partial(operator.call, make), ops.arange(count, dtype="int32"))


def choose_block_sizes(query_length, key_length, numbers_a_pair, limit):
    """Chooses the sizes of blocks, as square as the lengths allow.

    Args:
        query_length: T.
        key_length: S.
        numbers_a_pair: the number of floats for each pair of a query and a key, over all rows of the batch and heads.
        limit: the maximum number of queries or keys in a block.

    Returns:
        The `Blocks` of T and the `Blocks` of S. A block of pairs holds about `NUMBERS_A_BLOCK` numbers at most, but at
        least one pair.
    """
    pairs = 1 + NUMBERS_A_BLOCK // (1 + numbers_a_pair)  # at least 1, and finite for an empty batch
    rows = lesser(lesser(query_length, limit), square_root(pairs))
    columns = lesser(lesser(key_length, limit), pairs // rows)
    return Blocks(query_length, rows), Blocks(key_length, columns)


class Blocks:
    """A length divided into blocks of equal size.

    If the length is not a multiple of the size, the last block starts early and shares some positions with the block
    before. So every block is a plain slice, and nothing needs padding.

    Args:
        length: the number of positions.
        size: the size of a block, at most the length.

    Attributes:
        length, size: the arguments.
        count: the number of blocks.
        is_whole: True if it is known that there is a single block.
        is_even: True if it is known that no blocks share positions.
    """

    def __init__(self, length, size):
        self.length = length
        self.size = size
        self.count = -(-length // size)
        self.is_whole = is_known(length, size) and length == size
        self.is_even = is_known(length, size) and length % size == 0

    def _start(self, index):
        """Returns the first position of a block."""
        return lesser(index * self.size, self.length - self.size)

    def of(self, x, index, axis=2):
        """Returns a block of an array.

        Args:
            x: the array.
            index: the index of the block.
            axis: the axis of the positions. An axis of size 1, as in masks, is not divided.
        """
        length = dynamic_shape(x)[axis]
        if self.is_whole or (is_known(length) and length == 1):
            return x
        size = lesser(self.size, length)
        starts = [0] * len(x.shape)
        starts[axis] = lesser(self._start(index), length - size)
        sizes = list(dynamic_shape(x))
        sizes[axis] = size
        return ops.slice(x, starts, sizes)

    def is_new(self, index):
        """Returns bool `(size,)`: True at the positions of a block that no earlier block contains."""
        return self._start(index) + ops.arange(self.size, dtype="int32") >= index * self.size

    def zeros(self, x):
        """Returns zeros for the blocks of an array `(B, H, length, K)`: `(count, B, H, size, K)`."""
        return ops.zeros((self.count, *dynamic_shape(x)[:2], self.size, x.shape[-1]), x.dtype)

    def join(self, blocks):
        """Joins blocks to an array: `(count, B, H, size, K) -> (B, H, length, K)`."""
        if self.is_whole:
            return blocks[0]
        count, batch, heads, size, width = dynamic_shape(blocks)
        blocks = ops.moveaxis(blocks, 0, 2)
        return self.without_repeats(ops.reshape(blocks, (batch, heads, count * size, width)), axis=2)

    def without_repeats(self, x, axis):
        """Removes the positions of the last block that the block before contains too.

        Args:
            x: an array with `count * size` positions along an axis: consecutive blocks.
            axis: that axis.

        Returns:
            An array with `length` positions along the axis.
        """
        if self.is_even:
            return x
        last_start = (self.count - 1) * self.size
        positions = ops.arange(self.length, dtype="int32")
        repeats = self.count * self.size - self.length
        return ops.take(x, ops.where(positions < last_start, positions, positions + repeats), axis=axis)

    def map(self, make):
        """Stacks the results of `make(index)` for all blocks along a new first axis; see `stack`."""
        if self.is_whole:
            return keras.tree.map_structure(lambda x: x[None], make(0))
        return stack(make, self.count)

    def fold(self, step, *state):
        """Computes `state = step(index, *state)` for one block after another, and returns the last state.

        Args:
            step: a function of the index of a block and the state. It returns the next state.
            *state: tensors, the state before the first block.

        Returns:
            The last state: a tuple of tensors with the shapes of `state`.
        """
        if self.is_whole:
            return step(0, *state)

        def body(index, *state):
            state = step(index, *state)
            # An empty sum makes the next step wait for this step. TensorFlow would otherwise start ten steps at once,
            # and hold the blocks of all ten.
            zero = ops.sum(ops.reshape(state[-1], (-1,))[:0])
            return index + 1 + ops.cast(zero, "int32"), *state

        first = ops.convert_to_tensor(0, "int32")
        return ops.while_loop(lambda index, *_: index < self.count, body, (first, *state))[1:]

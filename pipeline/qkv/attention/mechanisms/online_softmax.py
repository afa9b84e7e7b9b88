"""Attention without the matrix of all pairs: FlashAttention's algorithm (Dao et al. 2022, algorithms 1 and 4).

The softmax reads the keys block by block: the sums so far are scaled down whenever a higher score turns up. For the
gradient, every block of scores is computed again from queries and keys.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from keras import ops

from ...layers.dynamic_shape import dynamic_shape
from ..masks import LOWEST
from .tiles import cut_pairs, stack


class Pairs:
    """All pairs of a query and a key, cut into blocks of pairs.

    Args:
        comparison: one of `qkv.attention.pairwise`.
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
        self.rows, self.columns = cut_pairs(length, dynamic_shape(key)[2], numbers, limit)

    def compare(self, i, j):
        """Returns the scores of a pair of blocks, and the function that computes their gradient."""
        return self.comparison.compare(self.rows.of(self.query, i), self.columns.of(self.key, j), *self.learnt)

    def only_new(self, x, i, j, otherwise):
        """Keeps the numbers of pairs that the mask allows and that no earlier block holds; the others become
        `otherwise`."""
        rows, columns = self.rows.is_new(i), self.columns.is_new(j)
        parts = [] if self.mask is None else [self.columns.of(self.rows.of(self.mask, i), j, axis=3)]
        parts += [] if rows is None else [ops.expand_dims(rows, 1)]
        parts += [] if columns is None else [columns]
        for part in parts:
            x = ops.where(part, x, otherwise)
        return x

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
        """Sums the contributions of all pairs of blocks to the gradients.

        Args:
            block: takes the numbers of a block of queries and of a block of keys, and returns the pair's contributions
                to the gradients by the queries, by each of `sides`, and by each of `learnt`.
            *sides: arrays `(B, H, S, any)` on the side of the keys; the keys come first.

        Returns:
            The gradients by the query, by each of `sides` and by each of `learnt`.
        """
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
        comparison: one of `qkv.attention.pairwise`.
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
    """Returns the context, and the logarithm of the number that each query's weights were divided by:
    `(B, H, T, 1)`."""
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
    """Computes all scores, `(B, H, T, S)`, in blocks if a comparison needs more than one number per pair.

    Args: as in `attend`.
    """
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

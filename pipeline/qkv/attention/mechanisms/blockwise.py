"""Softmax attention in bounded memory: the same numbers as `Softmax`, without the matrix of all pairs."""

import keras
from keras import ops

from ...layers.dynamic_shape import check_sizes
from ..masks import masked_softmax
from .mechanism import PairwiseMechanism
from .online_softmax import attend, score_matrix


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

    def __init__(self, block_size=128, score="scaled_dot", dropout=0.0, **kwargs):
        super().__init__(score, dropout, **kwargs)
        check_sizes(block_size=block_size)
        if self.dropout.rate:
            raise ValueError(
                "dropout: blockwise attention never holds the weights that it would act on, so expected 0, found "
                f"{self.dropout.rate}; take the mechanism softmax for dropout on weights"
            )
        self.block_size = block_size

    def weigh(self, scores, mask=None):
        return masked_softmax(scores, mask)

    def _prepare(self, query, key):
        """Prepares both sides in float32, because half precision cannot sum over many keys."""
        query, key, *learnt = (ops.cast(x, "float32") for x in self.score.prepare(query, key))
        return query, key, learnt

    def call(self, query, key, value, mask=None, training=None):  # type: ignore[override]
        mask = None if mask is None else ops.convert_to_tensor(mask, "bool")
        query, key, learnt = self._prepare(query, key)
        weights = self.weigh(score_matrix(self.score.comparison, query, key, learnt, self.block_size), mask)
        context = attend(
            self.score.comparison, query, key, ops.cast(value, "float32"), learnt, mask, limit=self.block_size
        )
        return ops.cast(context, value.dtype), weights

    def get_config(self):
        return {**super().get_config(), "block_size": self.block_size}

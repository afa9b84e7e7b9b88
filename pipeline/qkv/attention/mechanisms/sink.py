"""Softmax attention with a place to rest.

Letters: B batch, H heads, T target (query) positions, S source (key) positions.
"""

import keras
from keras import ops

from ...layers.dynamic_shape import dynamic_shape
from ..masks import LOWEST
from .mechanism import PairwiseMechanism


@keras.saving.register_keras_serializable(package="qkv")
class Sink(PairwiseMechanism):
    """`weights = exp(score(q, k)) / (exp(sink) + sum over keys of exp(score))`, with one learnt `sink` for each head.

    A softmax must put all its weight on some keys, even where none is of use; heads then choose one that says little,
    such as the first token or the end of the sentence (Xiao et al. 2024, section 3.1). Here such weight goes to the
    sink, which has no value: the context gets smaller, and a word without counterpart need not point anywhere. It is a
    softmax over the keys and one more, whose score does not depend on the query (as in gpt-oss, OpenAI 2025; Miller
    2023 fixes it at 0).

    The returned weights are those of the keys; what a row lacks to one is the share of the sink.

    Args:
        score, dropout: as in `Mechanism`.

    Call arguments and returns: as in `Mechanism`.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Sink()(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    has_sink = True

    def build(self, query_shape, key_shape, value_shape):
        # Scores are compared in float32, so Keras shall not round it.
        self.sink = self.add_weight(name="sink", shape=(query_shape[1],), initializer="zeros", autocast=False)
        super().build(query_shape, key_shape, value_shape)

    def weigh(self, scores, mask=None):
        scores = ops.cast(scores, "float32")
        sinks = ops.reshape(self.sink, (1, -1, 1, 1))
        return _softmax_beside(scores, ops.broadcast_to(sinks, (*dynamic_shape(scores)[:3], 1)), mask)


def _softmax_beside(scores, other, mask):
    """Returns the weights of the keys in a softmax over them and one more.

    The other score is never joined to those of the keys, so no copy is made of these, and the gradient is that of a
    softmax.

    Args:
        scores: float32 `(B, H, T, S)`.
        other: float32 `(B, H, T, 1)`, the score of the other.
        mask: bool, broadcastable to `scores`, or None.
    """

    @ops.custom_gradient
    def weigh(scores, other):
        allowed = scores if mask is None else ops.where(mask, scores, LOWEST)
        highest = ops.maximum(ops.max(allowed, -1, keepdims=True), other)
        weights, share = ops.exp(allowed - highest), ops.exp(other - highest)
        total = ops.sum(weights, -1, keepdims=True) + share
        weights, share = weights / total, share / total

        def gradient(*received, upstream=None):
            upstream = received[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            mean = ops.sum(weights * upstream, -1, keepdims=True)
            return weights * (upstream - mean), -share * mean

        return weights, gradient

    return weigh(scores, other)

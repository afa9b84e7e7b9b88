"""The interface of mechanisms, which turn queries, keys and values of each head into contexts; the softmax, and the
softmax with a place to rest.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from typing import Any

import keras
from keras import ops

from ...layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once, seed_of
from ...layers.keras_layers import Dropout, dynamic_shape
from ...layers.tap import tap
from ..by_name import describe_layer
from ..masks import LOWEST, masked_softmax
from ..scores import SCORE_CLASSES, make_score


class WeightsInFloat32:
    """A base class, listed before `keras.Layer`, of layers that return a context in the compute dtype and weights in
    float32: from their shapes, Keras takes the compute dtype for both."""

    def compute_output_spec(self, *args, **kwargs):
        context, weights = super().compute_output_spec(*args, **kwargs)  # type: ignore[misc]
        return context, keras.KerasTensor(weights.shape, "float32")


class Mechanism(ConstructorConfig, ReplaceableLayers, WeightsInFloat32, keras.Layer):
    """Decides how much of each value a query gets; subclasses define how.

    `context = weights value` in every mechanism, except for dropout, so weights can be shown even for mechanisms that
    do not hold them.

    Args:
        score: a score function, by name or as a layer such as `Cosine(initial_scale=5.0)`; see
            `qkv.attention.scores`.
        dropout: share of the weights set to zero in training. The returned weights are those before dropout.
        seed: an int, from which dropout, the score and learnt matrices get theirs; None for other numbers each time.

    Call arguments:
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.
        value: `(B, H, S, V)`.
        mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; None for no mask.
        training: whether dropout is applied.
        bias: only if `takes_bias`: added to the scores, broadcastable to `(B, H, T, S)`; see `alibi_bias`.

    Returns:
        `(context, weights)`: `(B, H, T, V)` and float32 `(B, H, T, S)`.

    Attributes:
        shares_query_and_key: True if one projection makes queries and keys, so that only self-attention can use the
            mechanism.
        uses_score: False if queries are not compared with keys: the argument `score` is ignored and the attribute is
            None.
        holds_weights: True if all weights are computed on the way to the context, so that dropout can act on them.
        takes_bias: True if a call takes `bias`.
        has_sink: True if part of a row's weight may go to no key; the row then sums to less than one.

    Example:
        >>> class First(Mechanism):
        ...     uses_score = False
        ...     def call(self, query, key, value, mask=None, training=None):
        ...         weights = keras.ops.zeros((*keras.ops.shape(query)[:3], keras.ops.shape(key)[2])) + [1.0, 0.0]
        ...         return keras.ops.matmul(weights, value), weights
        >>> query, key = keras.ops.ones((1, 1, 3, 4)), keras.ops.ones((1, 1, 2, 4))
        >>> First()(query, key, keras.ops.array([[[[5.0], [6.0]]]]))[0][0, 0, :, 0].numpy().tolist()
        [5.0, 5.0, 5.0]
    """

    shares_query_and_key = False
    uses_score = True
    holds_weights = True
    takes_bias = False
    has_sink = False

    def __init__(self, score="scaled_dot", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.seed = seed
        self.score_description = describe_layer("score", SCORE_CLASSES, score)
        self.score: Any = None
        if self.uses_score:
            own = {"seed": seed_of("score", seed), "name": "score", "dtype": self.dtype_policy}
            self.score = make_score(self.score_description, **own)
        self.dropout = Dropout(dropout, seed_of("dropout", seed), name="dropout", dtype=self.dtype_policy)

    def build(self, query_shape, key_shape, value_shape):
        if self.score is not None:
            build_once(self.score, query_shape, key_shape)

    def compare(self, query, key, bias=None):
        """Returns the scores, with the bias if there is one: `(B, H, T, S)`."""
        scores = self.score(query, key)
        return scores if bias is None else ops.cast(scores, "float32") + ops.cast(bias, "float32")

    def mix(self, weights, value, training=None):
        """Returns the context: the values, weighed after dropout."""
        return ops.matmul(ops.cast(self.dropout(weights, training=training), value.dtype), value)

    @property
    def score_name(self):
        """The name of the score function."""
        description = self.score_description
        return description if isinstance(description, str) else description["class_name"]

    @property
    def sizes_may_differ(self):
        """True if queries and keys may have different sizes."""
        return self.score is None or self.score.sizes_may_differ

    def compute_mask(self, *arguments):
        """Returns no mask: masks are passed explicitly, and Keras would attach this one to the context."""

    def compute_output_shape(self, query_shape, key_shape, value_shape):
        return (*query_shape[:-1], value_shape[-1]), (*query_shape[:-1], key_shape[-2])


class PairwiseMechanism(Mechanism):
    """A mechanism whose weights follow, row by row, from a score of each pair; subclasses define how."""

    takes_bias = True

    def weigh(self, scores, mask=None):
        """Turns scores into weights: `(B, H, T, S)` to float32 `(B, H, T, S)`.

        Args:
            scores: of all pairs, also of those that the mask hides.
            mask: as in the call.
        """
        raise NotImplementedError

    def call(self, query, key, value, mask=None, training=None, bias=None):
        weights = self.weigh(tap(self, "scores", self.compare(query, key, bias)), mask)
        return self.mix(weights, value, training), weights


@keras.saving.register_keras_serializable(package="qkv")
class Softmax(PairwiseMechanism):
    """`weights = softmax(score(q, k))` over the keys that the mask allows (Bahdanau et al. 2015, equation 6).

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Softmax()(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    def weigh(self, scores, mask=None):
        return masked_softmax(scores, mask)


@keras.saving.register_keras_serializable(package="qkv")
class Sink(PairwiseMechanism):
    """`weights = exp(score(q, k)) / (exp(sink) + sum over keys of exp(score))`, with one learnt `sink` for each head.

    A softmax must put all its weight on some keys, even where none is of use; heads then choose one that says little,
    such as the first token or the end of the sentence (Xiao et al. 2024, section 3.1). Here such weight goes to the
    sink, which has no value: the context gets smaller, and a word without counterpart need not point anywhere. It is a
    softmax over the keys and one more, whose score does not depend on the query (as in gpt-oss, OpenAI 2025; Miller
    2023 fixes it at 0).

    Only the weights of the keys are returned; what a row lacks to one is the share of the sink.

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
        sinks = ops.reshape(ops.cast(self.sink, "float32"), (1, -1, 1, 1))
        return _softmax_beside(scores, ops.broadcast_to(sinks, (*dynamic_shape(scores)[:3], 1)), mask)


def _softmax_beside(scores, other, mask):
    """Returns the weights of the keys in a softmax over them and one more.

    The other score `(B, H, T, 1)` is never joined to the scores of the keys, so these are not copied; the gradient is
    a softmax's.
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

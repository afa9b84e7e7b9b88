"""The interface of mechanisms, which compute the context of each head from its queries, keys and values; the softmax,
and the softmax with a learnt sink.

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
from ..scores import SCORE_CLASSES, ScoreArgument, make_score

__all__ = ["Mechanism", "Sink", "Softmax"]


class WeightsInFloat32:
    """Base class, listed before `keras.Layer`, of layers with a context in the compute dtype and float32 weights.

    Keras alone would assume the compute dtype for both when it infers the outputs from their shapes. A layer may also
    return its context alone.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().compute_output_spec(*args, **kwargs)  # type: ignore[misc]
        if isinstance(outputs, keras.KerasTensor):
            return outputs
        context, weights = outputs
        return context, keras.KerasTensor(weights.shape, "float32")


class Mechanism(ConstructorConfig, ReplaceableLayers, WeightsInFloat32, keras.Layer):
    """Base class of mechanisms, which compute the weight of each value for each query. A subclass defines `call`.

    `context = weights @ value` in every mechanism, except for dropout. So weights can be shown even for a mechanism
    that computes the context without them.

    Args:
        score: a score function: a name, or a layer such as `Cosine(initial_scale=5.0)`; see `attention.scores`.
        dropout: the share of the weights set to zero in training, from 0 to 1. The returned weights are the weights
            before dropout.
        seed: an int that determines dropout and the random initial values of trainable weights. None: each layer draws
            different numbers.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.
        value: `(B, H, S, V)`.
        mask: bool, broadcastable to `(B, H, T, S)`, True where a query may attend to a key; None for no mask.
        training: whether dropout is applied.
        bias: a tensor added to the scores, broadcastable to `(B, H, T, S)`, such as an `alibi_bias`, or None. Only
            mechanisms with `takes_bias` have this argument.

    Returns:
        `(context, weights)`: `(B, H, T, V)` and float32 `(B, H, T, S)`.

    Attributes:
        score: the `Score`; None if the mechanism has no scores.
        score_description: the argument `score` as a name, or as a dict of class name and arguments.
        shares_query_and_key: True if one projection makes queries and keys, so that only self-attention can use the
            mechanism.
        uses_score: False if queries are not compared with keys. The argument `score` is then ignored.
        holds_weights: True if the context is computed from the weights, so that dropout can act on them.
        takes_bias: True if a call has the argument `bias`.
        takes_rotation: True if queries and keys may be turned by rotary positions.
        has_sink: True if part of a query's weight may go to no key. Its weights then sum to less than 1.
        takes_segments: True if the mask may differ between queries, and a key that is hidden from a query changes
            nothing for it. Then a row may hold several sentence pairs, which the mask keeps apart.

    Raises:
        ValueError: the score function is unknown, or it is a layer that has weights already.

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
    takes_rotation = True
    has_sink = False
    takes_segments = False

    def __init__(
        self, score: ScoreArgument = "scaled_dot", dropout: float = 0.0, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.score_description = describe_layer("score", SCORE_CLASSES, score)
        self.score: Any = None
        if self.uses_score:
            self.score = make_score(
                self.score_description, seed=seed_of("score", seed), name="score", dtype=self.dtype_policy
            )
        self.dropout = Dropout(dropout, seed_of("dropout", seed), name="dropout", dtype=self.dtype_policy)

    def build(self, query_shape: Any, key_shape: Any, value_shape: Any) -> None:
        if self.score is not None:
            build_once(self.score, query_shape, key_shape)

    def compare(self, query: Any, key: Any, bias: Any = None) -> Any:
        """Returns the scores plus the bias, `(B, H, T, S)`; without a bias, just the scores."""
        scores = self.score(query, key)
        return scores if bias is None else ops.cast(scores, "float32") + ops.cast(bias, "float32")

    def mix(self, weights: Any, value: Any, training: bool | None = None) -> Any:
        """Applies dropout to weights `(B, H, T, S)` and returns the context, `(B, H, T, V)`."""
        return ops.matmul(ops.cast(self.dropout(weights, training=training), value.dtype), value)

    @property
    def score_name(self) -> str:
        """The name of the score function, also if the mechanism does not use it."""
        description = self.score_description
        return description if isinstance(description, str) else description["class_name"]

    @property
    def sizes_may_differ(self) -> bool:
        """True if queries and keys may have different sizes."""
        return self.score is None or self.score.sizes_may_differ

    def compute_mask(self, *arguments: Any) -> None:
        """Returns None: Keras would otherwise attach a mask to the context, but masks here are explicit arguments."""

    def compute_output_shape(self, query_shape: Any, key_shape: Any, value_shape: Any) -> Any:
        return (*query_shape[:-1], value_shape[-1]), (*query_shape[:-1], key_shape[-2])


class PairwiseMechanism(Mechanism):
    """Base class of mechanisms that compute the weights of each query from its scores. A subclass defines `weigh`.

    Args, call arguments and returns: as in `Mechanism`.
    """

    takes_bias = takes_segments = True

    def weigh(self, scores: Any, mask: Any = None) -> Any:
        """Computes weights from scores.

        Args:
            scores: `(B, H, T, S)`, including the scores of masked keys.
            mask: as in the call.

        Returns:
            float32 `(B, H, T, S)`.
        """
        raise NotImplementedError

    def call(
        self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None, bias: Any = None
    ) -> tuple[Any, Any]:
        weights = self.weigh(tap(self, "scores", self.compare(query, key, bias)), mask)
        return self.mix(weights, value, training), weights


@keras.saving.register_keras_serializable(package="qkv")
class Softmax(PairwiseMechanism):
    """`weights = softmax(score(q, k))` over the keys that the mask allows (Bahdanau et al. 2015, equation 6).

    Args, call arguments and returns: as in `Mechanism`.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Softmax()(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    def weigh(self, scores: Any, mask: Any = None) -> Any:
        return masked_softmax(scores, mask)


@keras.saving.register_keras_serializable(package="qkv")
class Sink(PairwiseMechanism):
    """`weights = exp(score(q, k)) / (exp(sink) + sum over keys of exp(score))`, with one learnt `sink` for each head.

    A softmax must distribute all its weight over the keys, even if no key is useful. Heads then choose a key with
    little content, such as the first token or the end of the sentence (Xiao et al. 2024, section 3.1). Here such weight
    goes to the sink, which has no value. So the context gets smaller, and a word without counterpart need not attend to
    any word. It is a softmax over the keys and one more score, which does not depend on the query (as in gpt-oss,
    OpenAI 2025; Miller 2023 fixes that score at 0).

    Args:
        score, dropout, seed, **kwargs: as in `Mechanism`.

    Call arguments and returns: as in `Mechanism`. Only the weights of the keys are returned; 1 minus their sum is the
    weight of the sink.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Sink()(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    has_sink = True

    def build(self, query_shape: Any, key_shape: Any, value_shape: Any) -> None:
        # Compared with scores in float32, so Keras must not round it.
        self.sink = self.add_weight(name="sink", shape=(query_shape[1],), initializer="zeros", autocast=False)
        super().build(query_shape, key_shape, value_shape)

    def weigh(self, scores: Any, mask: Any = None) -> Any:
        scores = ops.cast(scores, "float32")
        sinks = ops.reshape(ops.cast(self.sink, "float32"), (1, -1, 1, 1))
        return _softmax_with_sink(scores, ops.broadcast_to(sinks, (*dynamic_shape(scores)[:3], 1)), mask)


def _softmax_with_sink(scores, sink, mask):
    """Returns the weights of the keys, float32 `(B, H, T, S)`, in a softmax over the keys and the sink.

    The sink's score `(B, H, T, 1)` is not concatenated to the keys' scores, which would copy them. The gradient is
    the softmax's.
    """

    @ops.custom_gradient
    def weigh(scores, sink):
        allowed = scores if mask is None else ops.where(mask, scores, LOWEST)
        highest = ops.maximum(ops.max(allowed, -1, keepdims=True), sink)
        weights = ops.exp(allowed - highest)
        sink_weight = ops.exp(sink - highest)
        total = ops.sum(weights, -1, keepdims=True) + sink_weight
        weights = weights / total
        sink_weight = sink_weight / total

        def gradient(*arguments, upstream=None):
            upstream = arguments[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            mean = ops.sum(weights * upstream, -1, keepdims=True)
            return weights * (upstream - mean), -sink_weight * mean

        return weights, gradient

    return weigh(scores, sink)

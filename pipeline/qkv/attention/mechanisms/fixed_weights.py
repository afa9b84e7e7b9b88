"""Mechanisms that give all weight to one key, or equal weights to all keys: for teaching, and as baselines.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from typing import Any

import keras
from keras import ops

from ...layers.keras_layers import dynamic_shape
from ..masks import masked_softmax
from .softmax import Mechanism, PairwiseMechanism


@keras.saving.register_keras_serializable(package="qkv")
class OneHot(PairwiseMechanism):
    """`weights = one_hot(argmax(score(q, k)))`: a look-up. The softmax is its smooth form.

    If keys tie, the first gets the weight. The argmax has no gradient, so the gradient of the softmax replaces it (the
    straight-through estimator, Bengio et al. 2013). This gradient is biased, but queries and keys can learn.

    Args and call arguments: as in `Mechanism`.

    Example:
        >>> query, key = keras.ops.array([[[[1.0, 0.0]]]]), keras.ops.array([[[[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]]]])
        >>> context, weights = OneHot()(query, key, keras.ops.array([[[[10.0], [20.0], [30.0]]]]))
        >>> float(context[0, 0, 0, 0]), weights[0, 0, 0].numpy().tolist()
        (20.0, [0.0, 1.0, 0.0])
    """

    def weigh(self, scores: Any, mask: Any = None) -> Any:
        scores = ops.cast(scores, "float32")
        soft = masked_softmax(scores, mask)
        # Not the argmax of the softmax: scores that differ little may have equal weights.
        allowed = scores if mask is None else ops.where(mask, scores, -float("inf"))
        hard = ops.one_hot(ops.argmax(allowed, axis=-1), dynamic_shape(scores)[-1], dtype="float32")
        hard = hard if mask is None else ops.where(mask, hard, 0.0)
        return ops.stop_gradient(hard) + (soft - ops.stop_gradient(soft))


class FixedWeights(Mechanism):
    """Base class of mechanisms whose weights depend on the mask only. A subclass defines `choose`."""

    uses_score = False
    takes_segments = True

    def choose(self, equal: Any) -> Any:
        """Returns the weights.

        Args:
            equal: float32 `(B, H, T, S)`, equal weights on all keys that the mask allows.

        Returns:
            float32 `(B, H, T, S)`.
        """
        raise NotImplementedError

    def call(self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None) -> tuple[Any, Any]:
        scores = ops.zeros((*dynamic_shape(query)[:3], dynamic_shape(key)[2]), "float32")
        weights = self.choose(masked_softmax(scores, mask))
        return self.mix(weights, value, training), weights


@keras.saving.register_keras_serializable(package="qkv")
class Uniform(FixedWeights):
    """Equal weights on all keys that the mask allows: the context is the mean of their values.

    Comparing it with softmax attention shows what attention contributes.

    Args and call arguments: as in `Mechanism`; `score` is ignored.

    Example:
        >>> query, key = keras.ops.ones((1, 1, 1, 4)), keras.ops.ones((1, 1, 4, 4))
        >>> Uniform()(query, key, key)[1][0, 0, 0].numpy().tolist()
        [0.25, 0.25, 0.25, 0.25]
    """

    def choose(self, equal: Any) -> Any:
        return equal


@keras.saving.register_keras_serializable(package="qkv")
class Last(FixedWeights):
    """All weight on the last key that the mask allows.

    Over the states of a recurrent encoder, this is the single context vector that translation used before attention
    (Sutskever et al. 2014, section 2). With a causal mask, each position attends to itself.

    Args and call arguments: as in `Mechanism`; `score` is ignored.

    Example:
        >>> query, key = keras.ops.ones((1, 1, 1, 4)), keras.ops.ones((1, 1, 4, 4))
        >>> Last()(query, key, key, mask=keras.ops.array([[[[True, True, True, False]]]]))[1][0, 0, 0].numpy().tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    def choose(self, equal: Any) -> Any:
        positions = ops.arange(dynamic_shape(equal)[-1], dtype="int32")
        allowed = ops.where(equal > 0, positions, -1)
        return ops.cast(ops.logical_and(allowed >= 0, allowed == ops.max(allowed, -1, keepdims=True)), "float32")

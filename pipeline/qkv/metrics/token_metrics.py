"""The metrics of target tokens, for `compile` of Keras: means over all tokens except padding.

Logits are `(B, T, V)`. `sample_weight` of Keras weighs the means, by sentence `(B,)` or `(B, 1)`, or by token `(B, T)`.
If the logits carry a Keras mask, as after `Embedding(mask_zero=True)`, tokens that the mask hides count as padding.

Letters: B batch, T target positions, V vocabulary.
"""

from typing import Any

import keras
from keras import ops
from keras.src.backend.common.masking import get_keras_mask  # public to layers alone, by `compute_mask`

from ..losses import by_sentence, cross_entropies
from ..text.tokens.special_tokens import PAD


@keras.saving.register_keras_serializable(package="qkv")
class TokenAccuracy(keras.metrics.Mean):
    """The share of target tokens to which the model gives the highest probability, from 0 to 1.

    `update_state` takes the target tokens, int `(B, T)`, 0 for padding; the logits, float `(B, T, V)`; and weights of
    sentences, `(B,)` or `(B, 1)`, or of tokens, `(B, T)`.

    Example:
        >>> metric = TokenAccuracy()
        >>> metric.update_state([[1, 2, 0]], [[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
        >>> float(metric.result())
        0.5
    """

    _direction = "up"  # Keras' callbacks, such as EarlyStopping, ask every metric for it

    def __init__(self, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        y_true = ops.cast(y_true, "int32")
        right = ops.equal(ops.argmax(y_pred, axis=-1), y_true)
        weights = token_weights(y_true, y_pred, sample_weight, self.dtype)
        return super().update_state(*_flatten(ops.cast(right, self.dtype), weights))


@keras.saving.register_keras_serializable(package="qkv")
class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy of the target tokens, without label smoothing.

    `update_state` takes the target tokens, int `(B, T)`, 0 for padding; the logits, float `(B, T, V)`; and weights of
    sentences, `(B,)` or `(B, 1)`, or of tokens, `(B, T)`.

    Example:
        >>> metric = Perplexity()
        >>> metric.update_state([[1, 0]], keras.ops.zeros((1, 2, 4)))
        >>> round(float(metric.result()), 4)
        4.0
    """

    _direction = "down"

    def __init__(self, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        weights = token_weights(y_true, y_pred, sample_weight, self.dtype)
        losses = cross_entropies(y_true, ops.convert_to_tensor(y_pred, self.dtype))
        return super().update_state(*_flatten(losses, weights))

    def result(self) -> Any:
        return ops.exp(super().result())


def _flatten(values: Any, weights: Any) -> tuple[Any, Any]:
    """Returns values and weights of tokens, `(B, T)`, as `(B * T,)`.

    Keras averages over all axes but the first before it adds batches, so tokens of longer batches would count less.
    """
    return ops.reshape(values, (-1,)), ops.reshape(weights, (-1,))


def token_weights(targets: Any, logits: Any, sample_weight: Any, dtype: str) -> Any:
    """Returns the weight of each token in a metric, `(B, T)`; 0 for padding.

    Args:
        targets: the target tokens, `(B, T)`.
        logits: `(B, T, V)`, with or without a Keras mask.
        sample_weight: weights of sentences, `(B,)` or `(B, 1)`, or of tokens, `(B, T)`; None for equal weights.
        dtype: the Keras dtype of the result, such as `float32`.
    """
    weights = ops.cast(ops.not_equal(targets, PAD), dtype)
    factors = get_keras_mask(logits), None if sample_weight is None else by_sentence(sample_weight)
    for factor in factors:
        if factor is not None:
            weights = weights * ops.cast(factor, dtype)
    return weights

"""The loss and the metrics of target tokens, for `compile` of Keras: means over all tokens of a batch but padding.

Letters: B batch, T target positions, V vocabulary.
"""

import keras
from keras import ops

from ..text.tokens.special_tokens import PAD


@keras.saving.register_keras_serializable(package="qkv")
class TokenCrossEntropy(keras.losses.Loss):
    """The cross-entropy of each target token, with label smoothing (Szegedy et al. 2016, section 7), as `train.py` has
    it: `logsumexp(l) - (1 - e) l[target] - e mean(l)` for the logits l.

    Args:
        label_smoothing: e, the probability that is spread evenly over the vocabulary.
        **kwargs: further arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: int `(B, T)`, the target tokens, ending in EOS; 0 for padding.
        y_pred: logits, float `(B, T, V)`.

    Returns:
        The mean over the tokens of the batch, a float scalar.

    Example:
        >>> round(float(TokenCrossEntropy()([[3, 0]], keras.ops.zeros((1, 2, 4)))), 4)  # log(4)
        1.3863
    """

    def __init__(self, label_smoothing=0.0, name="token_cross_entropy", **kwargs):
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        losses = cross_entropies(y_true, y_pred, self.label_smoothing)
        real = ops.cast(ops.not_equal(y_true, PAD), losses.dtype)
        # Keras takes the mean over all positions, padding too.
        return losses * real / ops.maximum(ops.mean(real), 1e-9)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def cross_entropies(targets, logits, label_smoothing=0.0):
    """Computes the cross-entropy of each token: `(B, T)`, `(B, T, V) -> (B, T)`."""
    right = ops.take_along_axis(logits, ops.expand_dims(ops.cast(targets, "int32"), -1), axis=-1)[..., 0]
    smoothed = (1 - label_smoothing) * right + label_smoothing * ops.mean(logits, -1)
    return ops.logsumexp(logits, axis=-1) - smoothed


@keras.saving.register_keras_serializable(package="qkv")
class TokenAccuracy(keras.metrics.Mean):
    """The share of target tokens to which the model gives the highest probability, from 0 to 1.

    Example:
        >>> metric = TokenAccuracy()
        >>> metric.update_state([[1, 2, 0]], [[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
        >>> float(metric.result())
        0.5
    """

    _direction = "up"  # Keras' callbacks, such as EarlyStopping, ask every metric for it

    def __init__(self, name="token_accuracy", **kwargs):
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true = ops.cast(y_true, "int32")
        right = ops.equal(ops.argmax(y_pred, axis=-1), y_true)
        return super().update_state(ops.cast(right, self.dtype), _weights(y_true, sample_weight, self.dtype))


@keras.saving.register_keras_serializable(package="qkv")
class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy of the target tokens, without label smoothing.

    Example:
        >>> metric = Perplexity()
        >>> metric.update_state([[1, 0]], keras.ops.zeros((1, 2, 4)))
        >>> round(float(metric.result()), 4)
        4.0
    """

    _direction = "down"

    def __init__(self, name="perplexity", **kwargs):
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true, y_pred, sample_weight=None):
        weights = _weights(y_true, sample_weight, self.dtype)
        return super().update_state(cross_entropies(y_true, ops.convert_to_tensor(y_pred)), weights)

    def result(self):
        return ops.exp(super().result())


def _weights(targets, sample_weight, dtype):
    """Returns 1 for each token and 0 for padding, times the weights of sentences `(B,)` or tokens `(B, T)`."""
    weights = ops.cast(ops.not_equal(targets, PAD), dtype)
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, dtype)
    return weights * (sample_weight if len(sample_weight.shape) == 2 else ops.reshape(sample_weight, (-1, 1)))

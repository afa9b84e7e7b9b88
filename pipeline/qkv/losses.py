"""The loss of target tokens, for `compile` of Keras: a mean over all tokens of a batch except padding.

Weights of sentences, `(B,)` or `(B, 1)`, and weights of tokens, `(B, T)`, multiply the losses. If the logits carry a
Keras mask, as after `Embedding(mask_zero=True)`, tokens that the mask hides count as padding.

Letters: B batch, T target positions, V vocabulary.
"""

from typing import Any

import keras
from keras import ops
from keras.src.backend.common.masking import set_keras_mask  # public to layers alone, by `compute_mask`

from .text.tokens.special_tokens import PAD

__all__ = ["TokenCrossEntropy"]


@keras.saving.register_keras_serializable(package="qkv")
class TokenCrossEntropy(keras.losses.Loss):
    """The cross-entropy of target tokens with label smoothing (Szegedy et al. 2016, section 7).

    It is `logsumexp(l) - (1 - e) l[target] - e mean(l)` for the logits l of a token, as in `train.py`.

    Args:
        label_smoothing: e, the probability that is spread evenly over the vocabulary.
        name: the name of the loss.
        **kwargs: further arguments of `keras.losses.Loss`. If `reduction` is a mean, it is a mean over tokens. A
            `dtype` of half precision, which cannot hold large ids, is replaced by float32.

    Call arguments:
        y_true: the target tokens, which end in EOS, int `(B, T)`; 0 for padding.
        y_pred: logits, float `(B, T, V)`.
        sample_weight: weights of sentences, `(B,)` or `(B, 1)`, or of tokens, `(B, T)`; None for equal weights.

    Returns:
        The mean over the tokens of the batch, a float scalar; 0 if there are no tokens. With `reduction=None`, the loss
        of each token, `(B, T)`; 0 for padding.

    Example:
        >>> round(float(TokenCrossEntropy()([[3, 0]], keras.ops.zeros((1, 2, 4)))), 4)  # log(4)
        1.3863
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "token_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    @property
    def dtype(self) -> str:
        dtype = super().dtype
        return "float32" if dtype in ("bfloat16", "float16") else dtype

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().__call__(y_true, y_pred, None if sample_weight is None else by_sentence(sample_weight))

    def call(self, y_true: Any, y_pred: Any) -> Any:
        losses = cross_entropies(y_true, y_pred, self.label_smoothing)
        set_keras_mask(losses, ops.not_equal(y_true, PAD))  # Keras takes the mean over unmasked tokens
        return losses

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def cross_entropies(targets: Any, logits: Any, label_smoothing: float = 0.0) -> Any:
    """Computes the cross-entropy of each token.

    Args:
        targets: the target tokens, int `(B, T)`; 0 for padding.
        logits: float `(B, T, V)`.
        label_smoothing: see `TokenCrossEntropy`.

    Returns:
        The losses in nats, float `(B, T)`; 0 for padding.
    """
    targets = ops.cast(targets, "int32")
    right = ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)[..., 0]
    if label_smoothing:  # otherwise 0 * mean would be NaN if a logit, of no target, is minus infinity
        right = (1 - label_smoothing) * right + label_smoothing * ops.mean(logits, -1)
    return ops.where(ops.equal(targets, PAD), 0.0, ops.logsumexp(logits, axis=-1) - right)


def by_sentence(weights: Any) -> Any:
    """Adds an axis to weights of sentences, `(B,) -> (B, 1)`. Weights with more axes stay unchanged."""
    weights = ops.convert_to_tensor(weights)
    return ops.expand_dims(weights, 1) if len(weights.shape) == 1 else weights

"""What turns queries, keys and values of each head into contexts: the interface, and the softmax that most use.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from typing import Any

import keras
from keras import ops

from ...layers.dropout import Dropout
from ..masks import masked_softmax
from ..scores import make_score


class Mechanism(keras.Layer):
    """Decides which share of which value a query gets; subclasses say how.

    In every mechanism `context = weights value`, up to dropout: so weights can be shown for those that never hold them.

    Args:
        score: the name of a score function, see `pipeline.attention.scores`.
        score_settings: its further arguments, as a dict.
        dropout: share of the weights set to zero in training. The returned weights are those before dropout.

    Call arguments:
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.
        value: `(B, H, S, V)`.
        mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; None for everywhere.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, H, T, V)` and float32 `(B, H, T, S)`.
    """

    shares_query_and_key = False
    """Whether one projection makes both, so that only self-attention can have it."""

    has_cached_step = True
    """Whether a query gets alone, over the keys so far, what it gets among others, so that search can cache keys."""

    uses_score = True
    """Whether queries are compared with keys at all. Where not, `score` is None and the name of a score is ignored."""

    def __init__(self, score="scaled_dot", score_settings=None, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.score_name = score
        self.score_settings = dict(score_settings or {})
        self.score: Any = None
        if self.uses_score:
            self.score = make_score(score, **self.score_settings, name="score", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, query_shape, key_shape, value_shape):
        if self.score is not None:
            self.score.build(query_shape, key_shape)

    @property
    def sizes_may_differ(self):
        """Whether queries and keys may have different sizes."""
        return self.score is None or self.score.sizes_may_differ

    def compute_mask(self, *arguments):
        """No mask leaves: they are passed explicitly, and Keras would hang this one on the context."""

    def compute_output_shape(self, query_shape, key_shape, value_shape):
        return (*query_shape[:-1], value_shape[-1]), (*query_shape[:-1], key_shape[-2])

    def get_config(self):
        return {
            **super().get_config(),
            "score": self.score_name,
            "score_settings": self.score_settings,
            "dropout": self.dropout.rate,
        }


@keras.saving.register_keras_serializable(package="qkv")
class Softmax(Mechanism):
    """`weights = softmax(score(q, k))` over the keys that the mask allows (Bahdanau et al. 2015, equation 6).

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Softmax()(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    def call(self, query, key, value, mask=None, training=None):
        weights = masked_softmax(self.score(query, key), mask)
        kept = ops.cast(self.dropout(weights, training=training), value.dtype)
        return ops.matmul(kept, value), weights

"""Additive attention as Bahdanau, Cho and Bengio wrote it."""

import keras
from keras import ops

from pipeline.attention.masks import masked_softmax
from pipeline.attention.scores import Additive


@keras.saving.register_keras_serializable(package="qkv")
class AdditiveAttention(keras.Layer):
    """One head of additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

    `e = v . tanh(W_q query + W_k key [+ b])`, `weights = softmax(e)`, `context = weights value`. Unlike Keras' layer of
    that name it has both matrices, and values are not projected. The paper's query is the decoder's previous state.

    Args:
        units: the size of the hidden layer in which query and key meet.
        use_bias: adds b inside the tanh. The paper has none.
        dropout: share of the weights set to zero in training; the returned weights are those before dropout.

    Call arguments:
        query: `(B, T, Dq)`.
        key: `(B, S, Dk)`.
        value: `(B, S, Dv)`.
        mask: bool, broadcastable to `(B, 1, T, S)`; None for everywhere.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, Dv)` and float32 `(B, 1, T, S)`.

    Example:
        >>> layer = AdditiveAttention(units=4)
        >>> memory = keras.random.normal((1, 5, 6))
        >>> context, weights = layer(keras.random.normal((1, 3, 8)), memory, memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 6]), TensorShape([1, 1, 3, 5]))
    """

    def __init__(self, units, use_bias=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.query_projection = keras.layers.Dense(units, use_bias=False, name="query", dtype=self.dtype_policy)
        self.key_projection = keras.layers.Dense(units, use_bias=False, name="key", dtype=self.dtype_policy)
        self.score = Additive(use_bias=use_bias, name="score", dtype=self.dtype_policy)
        self.dropout = keras.layers.Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, query_shape, key_shape, value_shape):
        self.query_projection.build(query_shape)
        self.key_projection.build(key_shape)
        self.score.build((None, 1, None, self.units), (None, 1, None, self.units))

    def project_key(self, key):
        """`(B, S, Dk) -> (B, 1, S, units)`: does not depend on the query, so once for all of them."""
        return ops.expand_dims(self.key_projection(key), 1)

    def attend(self, query, projected_key, value, mask=None, training=None):
        """Attends with keys that `project_key` made; the arguments and results are otherwise those of the call."""
        query = ops.expand_dims(self.query_projection(query), 1)
        weights = masked_softmax(self.score(query, projected_key), mask)
        kept = ops.cast(self.dropout(weights, training=training), value.dtype)
        return ops.matmul(ops.squeeze(kept, 1), value), weights

    def call(self, query, key, value, mask=None, training=None):
        return self.attend(query, self.project_key(key), value, mask, training)

    def compute_mask(self, *arguments):
        """No mask leaves: they are passed explicitly, and Keras would hang this one on the context."""

    def compute_output_shape(self, query_shape, key_shape, value_shape):
        batch, length = query_shape[:2]
        return (batch, length, value_shape[-1]), (batch, 1, length, key_shape[1])

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "dropout": self.dropout.rate,
        }

"""Additive attention as Bahdanau, Cho and Bengio wrote it."""

import keras
from keras import ops

from ..layers.dense import Dense
from .mechanisms import make_mechanism


@keras.saving.register_keras_serializable(package="qkv")
class AdditiveAttention(keras.Layer):
    """One head of additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

    `e = v . tanh(W_q query + W_k key [+ b])`, `weights = softmax(e)`, `context = weights value`. Unlike Keras' layer of
    that name it has both matrices, and values are not projected. The paper's query is the decoder's previous state.

    Args:
        units: the size of the hidden layer in which query and key meet.
        use_bias: adds b inside the tanh. The paper has none.
        dropout: share of the weights set to zero in training; the returned weights are those before dropout.
        mechanism: "softmax", or "blockwise" for bounded memory; see `pipeline.attention.mechanisms`.
        mechanism_settings: its further arguments, as a dict.

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

    def __init__(self, units, use_bias=False, dropout=0.0, mechanism="softmax", mechanism_settings=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.query_projection = Dense(units, use_bias=False, name="query", dtype=self.dtype_policy)
        self.key_projection = Dense(units, use_bias=False, name="key", dtype=self.dtype_policy)
        self.mechanism_name = mechanism
        self.mechanism_settings = dict(mechanism_settings or {})
        self.mechanism = make_mechanism(
            mechanism,
            score="additive",
            score_settings={"use_bias": use_bias},
            dropout=dropout,
            **self.mechanism_settings,
            name="mechanism",
            dtype=self.dtype_policy,
        )

    @property
    def score(self):
        """The score function."""
        return self.mechanism.score

    def build(self, query_shape, key_shape, value_shape):
        self.query_projection.build(query_shape)
        self.key_projection.build(key_shape)
        hidden = (None, 1, None, self.units)
        self.mechanism.build(hidden, hidden, (None, 1, None, value_shape[-1]))

    def project_key(self, key):
        """`(B, S, Dk) -> (B, 1, S, units)`: does not depend on the query, so once for all of them."""
        return ops.expand_dims(self.key_projection(key), 1)

    def attend(self, query, projected_key, value, mask=None, training=None):
        """Attends with keys that `project_key` made; the arguments and results are otherwise those of the call."""
        query = ops.expand_dims(self.query_projection(query), 1)
        context, weights = self.mechanism(query, projected_key, ops.expand_dims(value, 1), mask=mask, training=training)
        return ops.squeeze(context, 1), weights

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
            "dropout": self.mechanism.dropout.rate,
            "mechanism": self.mechanism_name,
            "mechanism_settings": self.mechanism_settings,
        }

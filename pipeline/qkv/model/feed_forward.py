"""The position-wise feed-forward network."""

import keras

from ..layers.dense import Dense
from ..layers.dropout import Dropout
from ..layers.dynamic_shape import check_sizes


@keras.saving.register_keras_serializable(package="qkv")
class FeedForward(keras.Layer):
    """`W_2 dropout(activation(W_1 x + b_1)) + b_2` at every position (Vaswani et al. 2017, section 3.3).

    Args:
        width: D, of input and output.
        hidden_dim: the width between the two projections.
        activation: the name of a Keras activation.
        dropout: share of the hidden units set to zero in training.

    Call arguments:
        x: `(B, T, D)`.
        training: whether dropout is applied.

    Returns:
        `(B, T, D)`.

    Example:
        >>> FeedForward(width=8, hidden_dim=16)(keras.random.normal((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, width, hidden_dim, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        check_sizes(width=width, hidden_dim=hidden_dim)
        self.activation = activation
        self.inner = Dense(hidden_dim, activation=activation, name="inner", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.outer = Dense(width, name="outer", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.inner.units))

    def call(self, x, training=None):
        return self.outer(self.dropout(self.inner(x), training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "width": self.outer.units,
            "hidden_dim": self.inner.units,
            "activation": self.activation,
            "dropout": self.dropout.rate,
        }

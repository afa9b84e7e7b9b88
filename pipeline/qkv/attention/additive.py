"""Additive attention as Bahdanau, Cho and Bengio wrote it."""

import keras

from ..layers.keras_layers import check_sizes
from .multi_head import MultiHeadAttention
from .scores import Additive


@keras.saving.register_keras_serializable(package="qkv")
class AdditiveAttention(MultiHeadAttention):
    """One head of additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

    `e = v . tanh(W_q query + W_k key [+ b])`, `weights = softmax(e)`, `context = weights value`. Unlike Keras' layer of
    the same name, it has both matrices. Values are not projected. The paper's query is the decoder's previous state.

    Args:
        units: the size of the hidden layer in which query and key meet.
        use_bias: adds b inside the tanh. The paper has none.
        dropout: share of the weights set to zero in training; the returned weights are those before dropout.
        mechanism: what is done with the scores: a name, such as "softmax" or (for bounded memory) "blockwise", or a
            layer; see `qkv.attention.mechanisms`.
        **kwargs: `projection`, `kernel_initializer`, `bias_initializer`, `kernel_regularizer` and `seed`, as in
            `AttentionSpec`, and arguments of `keras.Layer`.

    Call arguments: as in `MultiHeadAttention`.

    Returns:
        `(context, weights)`: `(B, T, Dv)` and float32 `(B, 1, T, S)`.

    Example:
        >>> layer = AdditiveAttention(units=4)
        >>> memory = keras.random.normal((1, 5, 6))
        >>> context, weights = layer(keras.random.normal((1, 3, 8)), key=memory, value=memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 6]), TensorShape([1, 1, 3, 5]))
    """

    def __init__(self, units, use_bias=False, dropout=0.0, mechanism="softmax", **kwargs):
        check_sizes(units=units)
        super().__init__(
            num_heads=1,
            key_dim=units,
            score=Additive(use_bias=use_bias) if use_bias else "additive",
            mechanism=mechanism,
            value_projection=False,
            use_bias=False,
            dropout=dropout,
            **kwargs,
        )
        self.units = units
        self.bias_in_score = use_bias

    def build(self, query_shape, *, key_shape, value_shape):
        self.value_dim = self.output_dim = value_shape[-1]  # values are not projected
        super().build(query_shape, key_shape=key_shape, value_shape=value_shape)

    def compute_output_shape(self, query_shape, *, key_shape, value_shape):
        _, weights = super().compute_output_shape(query_shape, key_shape=key_shape, value_shape=value_shape)
        return (*query_shape[:2], value_shape[-1]), weights

"""Additive attention as Bahdanau, Cho and Bengio wrote it."""

from typing import Any

import keras

from ..layers.keras_layers import check_sizes
from .mechanisms import MechanismArgument
from .multi_head import MultiHeadAttention
from .scores import Additive


@keras.saving.register_keras_serializable(package="qkv")
class AdditiveAttention(MultiHeadAttention):
    """One head of additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

    `e = v . tanh(W_q query + W_k key [+ b])`, `weights = softmax(e)`, `context = weights value`. Unlike Keras' layer of
    the same name, it has both matrices. Values are not projected. The paper's query is the decoder's previous state.

    Args:
        units: the size of the projected queries and keys, whose sum goes through the tanh.
        use_bias: whether b is added inside the tanh. The paper has no bias.
        dropout: the share of the weights set to zero in training, from 0 to 1. The returned weights are the weights
            before dropout.
        mechanism: how contexts are computed from the scores: a name, such as "softmax" or (for bounded memory)
            "blockwise", or a layer; see `attention.mechanisms`.
        **kwargs: `projection`, `kernel_initializer`, `bias_initializer`, `kernel_regularizer`, `seed`, `positions` and
            `return_weights`, as in `AttentionSpec`, and arguments of `keras.Layer`.

    Attributes:
        spec: the `AttentionSpec`. Its `value_dim` and `output_dim` are the width of the values, and None until the
            layer is built.
        units, bias_in_score: the arguments `units` and `use_bias`.

    Call arguments: as in `MultiHeadAttention`.

    Returns:
        `(context, weights)`: `(B, T, Dv)` and float32 `(B, 1, T, S)`; with `return_weights=False`, the context alone.

    Raises:
        ValueError: `units` is not a whole number of at least 1; otherwise as in `MultiHeadAttention`.

    Example:
        >>> layer = AdditiveAttention(units=4)
        >>> memory = keras.random.normal((1, 5, 6))
        >>> context, weights = layer(keras.random.normal((1, 3, 8)), key=memory, value=memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 6]), TensorShape([1, 1, 3, 5]))
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = False,
        dropout: float = 0.0,
        mechanism: MechanismArgument = "softmax",
        **kwargs: Any,
    ) -> None:
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
        self._set_value_dim(None)

    def _set_value_dim(self, width: int | None) -> None:
        """Sets the size of values and context to the width of the values, which are not projected."""
        self.spec.value_dim = self.spec.output_dim = width
        self.value_dim = self.output_dim = width

    def build(self, query_shape: Any, *, value_shape: Any, key_shape: Any = None) -> None:
        self._set_value_dim(value_shape[-1])
        super().build(query_shape, value_shape=value_shape, key_shape=key_shape)

    def compute_output_shape(self, query_shape: Any, *, value_shape: Any, key_shape: Any = None) -> Any:
        batch, length = query_shape[:2]
        return self._outputs((batch, length, value_shape[-1]), (batch, 1, length, value_shape[1]))

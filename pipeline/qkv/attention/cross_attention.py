"""Cross-attention: queries from one sequence, keys and values from another."""

from typing import Any

import keras

from .masks import join_masks
from .multi_head import MultiHeadAttention


@keras.saving.register_keras_serializable(package="qkv")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention from a sequence to a memory (Vaswani et al. 2017, section 3.2.3, first bullet).

    `context = concat_h(softmax(score((x + p) W_q, (memory + m) W_k)) memory W_v) W_o`, with optional positions p of the
    queries and m of the memory. Positions affect the weights only: they are not added to the values (Carion et al.
    2020, DETR, appendix A.1). The argument `positions` of the constructor counts the tokens of x and of the memory from
    0 each. It makes sense if both have the same order and pace, such as the frames of two recordings; tokens of two
    languages have no distance.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`, the queries.
        memory: `(B, S, M)`, the keys and values.
        attention_mask: bool, broadcastable to `(B, H, T, S)`, usually the padding mask of the memory; or None.
        memory_positions: m, `(S, M)` or `(B, S, M)`, or None.
        positions: p, `(T, D)` or `(B, T, D)`, or None.
        x_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps with x. It becomes the mask of the
            context.
        memory_mask: bool `(B, S)`; if not given, the mask that Keras keeps with the memory. A query may attend only to
            positions that this mask and `attention_mask` allow.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, S)`; with `return_weights=False`, the context
        alone.

    Raises: as `MultiHeadAttention`.

    Example:
        >>> layer = CrossAttention(num_heads=2, key_dim=4)
        >>> context, weights = layer(keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 8)))
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 5]))
    """

    inputs_by_position = ("x", "memory")

    # Keras finds arguments by name, so a layer with two inputs cannot have the signatures of a layer with three inputs.
    def build(self, x_shape: Any, memory_shape: Any) -> None:  # type: ignore[override]
        super().build(x_shape, key_shape=memory_shape, value_shape=memory_shape)

    def call(  # type: ignore[override]
        self,
        x: Any,
        memory: Any,
        *,
        attention_mask: Any = None,
        memory_positions: Any = None,
        positions: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        key = memory if memory_positions is None else memory + memory_positions
        key, value = self.project_memory(key, memory)
        query = x if positions is None else x + positions
        attention_mask = join_masks(attention_mask, memory_mask)
        return self._attend_by_position(self.project_query(query), key, value, attention_mask, training)

    def compute_output_shape(self, x_shape: Any, memory_shape: Any) -> Any:  # type: ignore[override]
        return self._output_shapes(x_shape, memory_shape)

"""Self-attention: queries, keys and values are all made from the same sequence."""

import keras
from keras import ops

from pipeline.attention.core import AttentionCore


@keras.saving.register_keras_serializable(package="qkv")
class SelfAttention(AttentionCore):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.3).

    `context = concat_h(softmax(score(x W_q, x W_k)) x W_v) W_o`. The three projections are one matrix product.

    Args: see `AttentionCore`.

    Call arguments:
        x: `(B, T, D)`.
        mask: bool, broadcastable to `(B, H, T, T)`: padding in an encoder, padding and the future in a decoder.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, T)`.

    Raises:
        ValueError: without projection, when the input is not `num_heads * key_dim` wide or values have another size.

    Example:
        >>> context, weights = SelfAttention(num_heads=2, key_dim=4)(keras.random.normal((1, 3, 8)))
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]))
    """

    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(num_heads, key_dim, **kwargs)
        self.widths = (num_heads * key_dim, num_heads * key_dim, num_heads * self.value_dim)
        if self.projection:
            self.qkv_projection = self._dense(sum(self.widths), "qkv")
        elif self.value_dim != key_dim:
            raise ValueError(f"value_dim: without projection it must be key_dim = {key_dim}, found {self.value_dim}")

    def build(self, input_shape):
        if self.projection:
            self.qkv_projection.build(input_shape)
        elif input_shape[-1] != self.widths[0]:
            raise ValueError(
                f"x: without projection the width must be num_heads * key_dim = {self.widths[0]}, "
                f"found {input_shape[-1]}"
            )
        self._build_core()

    def project(self, x):
        """`(B, T, D) -> query, key and value of (B, H, T, K or V)`, for `attend`; a decoder caches the last two."""
        if not self.projection:
            heads = self.split_heads(x)
            return heads, heads, heads
        query_width, key_width, _ = self.widths
        parts = ops.split(self.qkv_projection(x), [query_width, query_width + key_width], axis=-1)
        return tuple(self.split_heads(part) for part in parts)

    def call(self, x, mask=None, training=None):
        query, key, value = self.project(x)
        return self.attend(query, key, value, mask, training)

    def compute_output_shape(self, input_shape):
        return self._output_shapes(input_shape, input_shape)

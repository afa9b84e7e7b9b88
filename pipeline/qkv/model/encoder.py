"""The Transformer's encoder: self-attention and feed-forward, layer upon layer.

Letters: B batch, H heads, S source positions, D model width.
"""

import keras

from .block import Block


@keras.saving.register_keras_serializable(package="qkv")
class EncoderBlock(Block):
    """One layer of the encoder (Vaswani et al. 2017, section 3.1).

    Args:
        d_model: D.
        num_heads: heads of every attention layer, a divisor of D unless `key_dim` and `value_dim` are given.
        d_ff: width of the feed-forward network's hidden layer.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`.
        norm: "pre" or "post", see `Residual`.
        activation: of the feed-forward network.
        dropout: on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward network's hidden layer.

    Call arguments:
        x: `(B, S, D)`.
        mask: bool, broadcastable to `(B, H, S, S)`.
        positions: `(S, D)`, added to queries and keys, or None.
        rotation, bias: see `SelfAttention`.
        training: whether dropout is applied.

    Returns:
        `(states, weights)`: `(B, S, D)` and float32 `(B, H, S, S)`.

    Example:
        >>> states, weights = EncoderBlock(d_model=8, num_heads=2, d_ff=16)(keras.random.normal((1, 5, 8)))
        >>> states.shape, weights.shape
        (TensorShape([1, 5, 8]), TensorShape([1, 2, 5, 5]))
    """

    def call(self, x, mask=None, positions=None, rotation=None, bias=None, training=None):
        y, weights = self.self_attention(
            self.self_attention_residual.enter(x),
            mask=mask,
            positions=positions,
            rotation=rotation,
            bias=bias,
            training=training,
        )
        x = self.self_attention_residual.leave(x, y, training=training)
        return self.transform(x, training=training), weights

    def compute_output_shape(self, x_shape):
        batch, length, _ = x_shape
        return x_shape, (batch, self.self_attention.num_heads, length, length)

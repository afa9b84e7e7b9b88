"""A layer of a decoder without an encoder: causal self-attention and a feed-forward network.

Letters: B batch, H heads, T positions, S positions before them, D model width, K and V key and value size of a head.
"""

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from ..attention.masks import join_masks
from .block import Block


@keras.saving.register_keras_serializable(package="qkv")
class CausalBlock(Block):
    """One layer, whose self-attention covers each position and those before it.

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
        x: `(B, T, D)`.
        mask: bool, broadcastable to `(B, H, T, keys)`: the keys of `before`, then those of x.
        before: (keys, values) of the positions before x, each `(B, H, S, K or V)`, or None.
        positions: `(T, D)` or `(B, T, D)`, added to queries and keys, or None.
        rotation, bias: see `SelfAttention`; the bias covers all keys.
        x_mask: bool `(B, T)`; if not given, the mask that Keras keeps of x. It is joined with `mask` if `before` is
            None.
        training: whether dropout is applied.

    Returns:
        `(states, weights, (keys, values))`: `(B, T, D)`, float32 `(B, H, T, keys)`, and all keys and values: those of
        `before`, then those of x.

    Example:
        >>> block = CausalBlock(d_model=8, num_heads=2, d_ff=16)
        >>> states, weights, (keys, values) = block(keras.random.normal((1, 3, 8)))
        >>> states, weights, _ = block(keras.random.normal((1, 1, 8)), before=(keys, values))  # the step after
        >>> states.shape, weights.shape
        (TensorShape([1, 1, 8]), TensorShape([1, 2, 1, 4]))
    """

    def call(self, x, mask=None, before=None, positions=None, rotation=None, bias=None, x_mask=None, training=None):
        if mask is not None and len(mask.shape) == 2 and get_keras_mask(x) is not None:
            mask, x_mask = None, mask  # x is the only input, so Keras passes its mask as `mask`
        if before is None:
            mask = join_masks(mask, x_mask)
        query, keys, values = self.self_attention.project(self.self_attention_residual.enter(x), positions, rotation)
        if before is not None:
            keys, values = (ops.concatenate(pair, axis=2) for pair in zip(before, (keys, values), strict=True))
        y, weights = self.self_attention.attend(query, keys, values, mask, training, bias)
        x = self.self_attention_residual.leave(x, y, training=training)
        return self.transform(x, training=training), weights, (keys, values)

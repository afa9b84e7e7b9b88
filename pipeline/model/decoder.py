"""The Transformer's decoder: causal self-attention, cross-attention and feed-forward, layer upon layer.

Letters: B batch, H heads, T target positions, S source positions, L cached positions, D model width, K key size.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from pipeline.attention.cross_attention import CrossAttention
from pipeline.attention.self_attention import SelfAttention
from pipeline.model.feed_forward import FeedForward
from pipeline.model.residual import Residual


class BlockCache(NamedTuple):
    """What one decoder layer keeps from step to step: keys and values `(B, H, L, K)` of the target so far, filled from
    the left, and those of the memory `(B, H, S, K)`, which stay the same."""

    keys: Any
    values: Any
    memory_keys: Any
    memory_values: Any


@keras.saving.register_keras_serializable(package="qkv")
class DecoderBlock(keras.Layer):
    """One layer of the decoder (Vaswani et al. 2017, section 3.1).

    Args:
        d_model: D.
        num_heads: H, a divisor of D.
        d_ff: width of the feed-forward network's hidden layer.
        self_score: score function of the self-attention, see `pipeline.attention.scores`.
        cross_score: score function of the cross-attention.
        norm: "pre" or "post", see `Residual`.
        activation: of the feed-forward network.
        dropout: on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward network's hidden layer.

    Call arguments:
        x: `(B, T, D)`.
        memory: `(B, S, D)`, the encoder's states; not looked at with a cache, which holds what is needed of them.
        self_mask: bool, broadcastable to `(B, H, T, T)`, or `(B, H, T, L)` with a cache.
        memory_mask: bool, broadcastable to `(B, H, T, S)`.
        cache: `BlockCache`, or None for a pass over a whole target.
        position: with a cache, where the first row of x stands in the target.
        training: whether dropout is applied.

    Returns:
        `(states, self_weights, cross_weights, cache)`: `(B, T, D)`, float32 `(B, H, T, T or L)` and `(B, H, T, S)`, and
        the cache with the keys and values of x filled in, or None.
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_ff,
        self_score="scaled_dot",
        cross_score="scaled_dot",
        norm="pre",
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.settings = {
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "self_score": self_score,
            "cross_score": cross_score,
            "norm": norm,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
        }
        heads = {"num_heads": num_heads, "key_dim": d_model // num_heads, "dropout": attention_dropout, "dtype": policy}
        self.self_attention = SelfAttention(score=self_score, name="self_attention", **heads)
        self.self_attention_residual = Residual(norm, dropout, name="self_attention_residual", dtype=policy)
        self.cross_attention = CrossAttention(score=cross_score, name="cross_attention", **heads)
        self.cross_attention_residual = Residual(norm, dropout, name="cross_attention_residual", dtype=policy)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation, activation_dropout, name="feed_forward", dtype=policy
        )
        self.feed_forward_residual = Residual(norm, dropout, name="feed_forward_residual", dtype=policy)

    def build(self, x_shape, memory_shape):
        self.cross_attention.build(x_shape, memory_shape)
        for layer in (
            self.self_attention,
            self.self_attention_residual,
            self.cross_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            layer.build(x_shape)

    def start_cache(self, memory, length):
        """Empty `BlockCache` for targets of up to `length` tokens; the memory `(B, S, D)` is projected here, once."""
        memory_keys, memory_values = self.cross_attention.project_memory(memory, memory)
        batch = ops.shape(memory)[0]
        shape = (batch, self.self_attention.num_heads, length, self.self_attention.key_dim)
        empty = ops.zeros(shape, memory_keys.dtype)
        return BlockCache(empty, empty, memory_keys, memory_values)

    def call(self, x, memory, self_mask=None, memory_mask=None, cache=None, position=0, training=None):
        query, keys, values = self.self_attention.project(self.self_attention_residual.enter(x))
        if cache is None:
            memory_keys, memory_values = self.cross_attention.project_memory(memory, memory)
        else:
            keys = ops.slice_update(cache.keys, (0, 0, position, 0), keys)
            values = ops.slice_update(cache.values, (0, 0, position, 0), values)
            memory_keys, memory_values = cache.memory_keys, cache.memory_values
            cache = cache._replace(keys=keys, values=values)
        y, self_weights = self.self_attention.attend(query, keys, values, self_mask, training=training)
        x = self.self_attention_residual.leave(x, y, training=training)
        query = self.cross_attention.project_query(self.cross_attention_residual.enter(x))
        y, cross_weights = self.cross_attention.attend(
            query, memory_keys, memory_values, memory_mask, training=training
        )
        x = self.cross_attention_residual.leave(x, y, training=training)
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training=training), self_weights, cross_weights, cache

    def get_config(self):
        return {**super().get_config(), **self.settings}

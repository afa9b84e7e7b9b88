"""The Transformer's decoder: causal self-attention, cross-attention and feed-forward, layer upon layer.

Letters: B batch, H heads, T target positions, S source positions, L cached positions, D model width, K key size, N
targets of one source, in adjacent rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from ..attention.cross_attention import CrossAttention
from ..attention.masks import join_masks
from .block import Block
from .places import Heads, Returned


class BlockCache(NamedTuple):
    """The state of one decoder layer between steps: keys and values of the L tokens so far, `(B * N, key_value_heads,
    L, K)`."""

    keys: Any
    values: Any


@keras.saving.register_keras_serializable(package="qkv")
class DecoderBlock(Block):
    """One layer of the decoder (Vaswani et al. 2017, section 3.1).

    Args:
        d_model: D.
        num_heads: heads of every attention layer, a divisor of D unless `key_dim` and `value_dim` are given.
        d_ff: width of the feed-forward network's hidden layer.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`.
        cross_attention: further arguments of `CrossAttention` as a dict.
        norm: "pre" or "post", see `Residual`.
        activation: of the feed-forward network.
        dropout: on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward network's hidden layer.

    Call arguments:
        x: `(B, T, D)`.
        memory: `(B, S, D)`, the encoder's states.
        projected: what `project_memory` returned for the memory, or None to project it here.
        self_mask: bool, broadcastable to `(B, H, T, T)`, or `(B, H, T, L + T)` with a cache.
        memory_mask: bool, broadcastable to `(B, H, T, S)`; `(B, S)` where Keras finds it.
        cache: `BlockCache`, or None for a pass over a whole target. With a cache, x may have N rows for each row of the
            memory.
        positions: `(T, D)`, added to the queries and the self-attention's keys, or None.
        memory_positions: `(S, D)`, added to the cross-attention's keys, or None; not read with `projected`.
        rotation, bias: of the self-attention, see `SelfAttention`; with a cache the bias covers its keys, too.
        x_mask: bool `(B, T)`; if not given, the mask that Keras keeps of x. It is joined with `self_mask` if there is
            no cache.
        training: whether dropout is applied.

    Returns:
        `(states, self_weights, cross_weights, cache)`: `(B, T, D)`, float32 `(B, H, T, T or L + T)` and `(B, H, T, S)`,
        and the cache with the keys and values of x appended, or None.

    Example:
        >>> block = DecoderBlock(d_model=8, num_heads=2, d_ff=16)
        >>> x, memory = keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 8))
        >>> states, self_weights, cross_weights, _ = block(x, memory)
        >>> states.shape, self_weights.shape, cross_weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]), TensorShape([1, 2, 3, 5]))
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_ff,
        self_attention=None,
        cross_attention=None,
        norm="pre",
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        **kwargs,
    ):
        super().__init__(
            d_model,
            num_heads,
            d_ff,
            self_attention,
            norm,
            activation,
            dropout,
            attention_dropout,
            activation_dropout,
            **kwargs,
        )
        self.cross_attention = CrossAttention(**self._attention_arguments(cross_attention), name="cross_attention")
        self.cross_attention_residual = self._residual("cross_attention_residual")

    # Keras finds arguments by name, so a layer with two inputs cannot have the signature of a layer with one input.
    def build(self, x_shape, memory_shape):  # type: ignore[override]
        super().build(x_shape)
        self.cross_attention.build(x_shape, memory_shape)
        self.cross_attention_residual.build(x_shape)

    def start_cache(self, batch):
        """Makes an empty `BlockCache` for `batch` targets. It grows, so its length is not a constant of a graph."""
        shape, dtype = (batch, self.self_attention.key_value_heads, 0 * batch), self.compute_dtype
        return BlockCache(
            ops.zeros((*shape, self.self_attention.key_dim), dtype),
            ops.zeros((*shape, self.self_attention.value_dim), dtype),
        )

    def project_memory(self, memory, memory_positions=None):
        """Projects a memory `(B, S, D)` to keys and values `(B, key_value_heads, S, K)`, which no query changes."""
        keys = memory if memory_positions is None else memory + memory_positions
        return self.cross_attention.project_memory(keys, memory)

    def places(self, name, before=None):
        """Names what the layer computes of the target, see `TranslationModel.places`; keys and values of the memory are
        computed before."""
        yield from super().places(name, before)
        yield Returned(self.cross_attention, "project_query", f"{name}.cross.queries")
        yield Heads(self.cross_attention, f"{name}.cross")
        yield Returned(self.cross_attention_residual, "leave", f"{name}.cross.residual")

    def call(
        self,
        x,
        memory,
        projected=None,
        self_mask=None,
        memory_mask=None,
        cache=None,
        positions=None,
        memory_positions=None,
        rotation=None,
        bias=None,
        x_mask=None,
        training=None,
    ):
        if memory_mask is not None and len(memory_mask.shape) == 2 and get_keras_mask(memory) is not None:
            memory_mask = join_masks(None, memory_mask)
        if cache is None:
            self_mask = join_masks(self_mask, x_mask)
        query, keys, values = self.self_attention.project(self.self_attention_residual.enter(x), positions, rotation)
        attend: Callable = self.cross_attention.attend
        if cache is not None:
            keys = ops.concatenate([cache.keys, keys], axis=2)
            values = ops.concatenate([cache.values, values], axis=2)
            cache = BlockCache(keys, values)
            attend = self.cross_attention.attend_from_rows
        y, self_weights = self.self_attention.attend(query, keys, values, self_mask, training, bias)
        x = self.self_attention_residual.leave(x, y, training=training)
        query = self.cross_attention_residual.enter(x)
        query = self.cross_attention.project_query(query if positions is None else query + positions)
        memory_keys, memory_values = projected or self.project_memory(memory, memory_positions)
        y, cross_weights = attend(query, memory_keys, memory_values, memory_mask, training=training)
        x = self.cross_attention_residual.leave(x, y, training=training)
        return self.transform(x, training=training), self_weights, cross_weights, cache

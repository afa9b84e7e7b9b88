"""The Transformer of Vaswani et al. (2017), with a choice of attention at each of its three sites.

Letters: B batch, H heads, T target positions, S source positions, L cached positions, D model width, K and V key and
value size of a head, N targets of one source, in adjacent rows. V also stands for the vocabulary, in logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
from keras import ops

from ..attention.cross_attention import CrossAttention
from ..attention.masks import causal_mask, join_masks, padding_mask
from ..attention.relative_positions import NO_DISTANCES, Distances
from ..attention.self_attention import SelfAttention
from ..config.choices.model import NORMS
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once
from ..layers.keras_layers import Dense, Dropout, LayerNormalization, check_sizes, dynamic_shape
from ..layers.low_rank import LowRank
from ..layers.tap import tap
from .embedding import PositionalEmbedding, make_embeddings
from .interface import DecoderOutput, Memory, TranslationModel

__all__ = ["BlockSpec", "DecoderBlock", "EncoderBlock", "FeedForward", "FinalNorms", "Residual", "Transformer"]


@keras.saving.register_keras_serializable(package="qkv")
class Transformer(TranslationModel):
    """An encoder and a decoder, each a stack of blocks.

    Args:
        vocabulary_size: V, the size of the vocabulary that source and target share.
        d_model: D.
        num_heads: H, a divisor of D unless `key_dim` and `value_dim` of the attention are given.
        d_ff: the width of the feed-forward networks' hidden layer.
        encoder_layers: the number of encoder blocks.
        decoder_layers: the number of decoder blocks.
        dropout: the share of the embeddings and of the output of each sublayer set to zero in training, from 0 to 1.
        attention_dropout: the share of the attention weights set to zero in training.
        activation_dropout: the share of the feed-forward networks' hidden units set to zero in training.
        norm: "pre" or "post", see `Residual`.
        positions: a key of `config.choices.model.POSITIONS`. "rotary" and "alibi" act on both self-attentions.
            Cross-attention then has no positions, because tokens of two sentences have no distance.
        positions_on: "input" adds positions to the embeddings; "queries_and_keys" adds them to the queries and keys of
            every attention (Carion et al. 2020, DETR, appendix A.1).
        activation: the name of the Keras activation of the feed-forward networks.
        tie_embeddings: which embeddings share one table: "all" (source, target and output), "target" (target and
            output), "none".
        scale_embeddings: whether embeddings are multiplied by `sqrt(D)`.
        output_bias: whether the logits have a bias.
        max_positions: the maximum number of tokens of a source or a target.
        encoder_self: further arguments of the encoder's self-attention as a dict, such as `{"score": "cosine"}`.
        decoder_self: further arguments of the decoder's self-attention as a dict.
        cross: further arguments of the cross-attention as a dict.
        **kwargs: the arguments of `keras.Model`.

    Attributes:
        source_embedding, target_embedding, output_embedding: the `TokenEmbedding`s.
        source_positions, target_positions: the `PositionalEmbedding`s.
        encoder_blocks, decoder_blocks: lists of `EncoderBlock` and `DecoderBlock`, the first block first.
        final_norms: the `FinalNorms`, or an empty sequence if `norm` is "post".

    Call arguments and returns: see `TranslationModel`.

    Raises:
        ValueError: an argument is out of its range, see `AttentionSpec`; or a sentence has more than `max_positions`
            tokens, and positions are not relative.

    Example:
        >>> model = Transformer(vocabulary_size=20, d_model=8, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
        >>> model.build()
        >>> source_ids, target_ids = keras.ops.array([[5, 6, 7, 3]]), keras.ops.array([[2, 8, 9]])
        >>> output = model.decode(target_ids, model.encode(source_ids))
        >>> output.logits.shape, output.cross[0].shape
        (TensorShape([1, 3, 20]), TensorShape([1, 2, 3, 4]))
    """

    def __init__(
        self,
        vocabulary_size,
        d_model=128,
        num_heads=4,
        d_ff=256,
        encoder_layers=4,
        decoder_layers=4,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        norm="pre",
        positions="sinusoidal",
        positions_on="input",
        activation="relu",
        tie_embeddings="all",
        scale_embeddings=True,
        output_bias=False,
        max_positions=512,
        encoder_self=None,
        decoder_self=None,
        cross=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        spec = BlockSpec(
            d_model=d_model,
            num_heads=num_heads,
            d_ff=d_ff,
            norm=norm,
            activation=activation,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
        )
        self.d_model = d_model
        policy = self.dtype_policy
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, d_model, tie_embeddings, policy, scale_embeddings, output_bias
        )
        self.source_positions, self.target_positions = (
            PositionalEmbedding(positions, max_positions, dropout, positions_on, name=f"{side}_positions", dtype=policy)
            for side in ("source", "target")
        )
        self.encoder_blocks = [
            EncoderBlock(spec, encoder_self, name=f"encoder_{i}", dtype=policy) for i in range(encoder_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(spec, decoder_self, cross, name=f"decoder_{i}", dtype=policy) for i in range(decoder_layers)
        ]
        self.final_norms: Any = ()
        if norm == "pre":  # blocks of post-norm end in a normalisation
            self.final_norms = FinalNorms(
                encoder=LayerNormalization(epsilon=1e-5, name="encoder_norm", dtype=policy),
                decoder=LayerNormalization(epsilon=1e-5, name="decoder_norm", dtype=policy),
            )

    def build(self, input_shape=None):
        states = (None, None, self.d_model)
        # Assigned again, because Keras does not notice that an element of a list was replaced.
        self.encoder_blocks = self.encoder_blocks
        self.decoder_blocks = self.decoder_blocks
        if self.final_norms:  # a subclass may have replaced them by a list
            self.final_norms = FinalNorms(*self.final_norms)
        self.build_embeddings()
        for layer in (self.source_positions, self.target_positions, *self.encoder_blocks, *self.final_norms):
            build_once(layer, states)
        for block in self.decoder_blocks:
            build_once(block, states, states)

    def encode(self, source_ids, training=None):
        mask = padding_mask(source_ids)
        x = self.source_positions(self.source_embedding(source_ids), training=training)
        x = tap(self, "encoder.embedding", x)
        length = dynamic_shape(source_ids)[1]
        positions = self.source_positions.on_queries_and_keys(length)
        distances = self.source_positions.distances(
            self.encoder_blocks[0].self_attention, ops.arange(length, dtype="int32")
        )
        weights = []
        for block in self.encoder_blocks:
            x, layer_weights, _ = block(x, mask, positions=positions, distances=distances, training=training)
            weights.append(layer_weights)
        if self.final_norms:
            x = self.final_norms.encoder(x)
        prepared = tuple(block.project_memory(x, positions) for block in self.decoder_blocks)
        return Memory(x, mask, tuple(weights), prepared)

    def value_norms(self, memory):
        return tuple(block.cross_attention.value_norms(memory.states) for block in self.decoder_blocks)

    def start_cache(self, memory):
        return tuple(block.start_cache(dynamic_shape(memory.states)[0]) for block in self.decoder_blocks)

    def decode(self, target_ids, memory, cache=None, training=None):
        position = 0 if cache is None else dynamic_shape(cache[0][0])[2]
        length = dynamic_shape(target_ids)[1]
        self_mask = causal_mask(length, position + length, position)
        x = self.target_positions(self.target_embedding(target_ids), offset=position, training=training)
        x = tap(self, "decoder.embedding", x)
        positions = self.target_positions.on_queries_and_keys(length, position)
        key_positions = ops.arange(position + length, dtype="int32")
        distances = self.target_positions.distances(
            self.decoder_blocks[0].self_attention, key_positions[position:], key_positions
        )
        self_weights, cross_weights, caches = [], [], []
        for i, block in enumerate(self.decoder_blocks):
            x, own_weights, source_weights, keys_values = block(
                x,
                memory.states,
                projected=memory.prepared[i],
                self_mask=self_mask,
                cross_mask=memory.mask,
                before=None if cache is None else cache[i],
                positions=positions,
                distances=distances,
                training=training,
            )
            self_weights.append(own_weights)
            cross_weights.append(source_weights)
            caches.append(keys_values)
        if self.final_norms:
            x = self.final_norms.decoder(x)
        cache = None if cache is None else tuple(caches)
        logits = tap(self, "logits", self.output_embedding.logits(x))
        return DecoderOutput(x, logits, tuple(cross_weights), tuple(self_weights), cache)

    def attention_layers(self):
        return {
            "encoder": [block.self_attention for block in self.encoder_blocks],
            "decoder": [block.self_attention for block in self.decoder_blocks],
            "cross": [block.cross_attention for block in self.decoder_blocks],
        }

    def layer_names(self, side):
        names = {self: ""}
        for stack, blocks in (("encoder", self.encoder_blocks), ("decoder", self.decoder_blocks)):
            for i, block in enumerate(blocks):
                names |= block.layer_names(f"{stack}.{i}")
        return names


class FinalNorms(NamedTuple):
    """The normalisations after the last block of the encoder and of the decoder, `LayerNormalization`s.

    A weight file has them as elements of `final_norms`, in this order.
    """

    encoder: Any
    decoder: Any


@dataclass(frozen=True)
class BlockSpec:
    """The arguments that all blocks of a stack share.

    Args: as in `Transformer`.

    Raises:
        ValueError: `d_model`, `num_heads` or `d_ff` is not a whole number of at least 1.
    """

    d_model: int
    num_heads: int
    d_ff: int
    norm: str = "pre"
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self):
        check_sizes(d_model=self.d_model, num_heads=self.num_heads, d_ff=self.d_ff)

    def attention(self, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the arguments of one of the attention layers as a dict.

        Args:
            further: arguments with precedence over the arguments of the block, such as `{"score": "cosine"}`; or None.

        Raises:
            ValueError: D is not a multiple of H, and `further` has not both `key_dim` and `value_dim`.
        """
        further = further or {}
        if self.d_model % self.num_heads and not {"key_dim", "value_dim"} <= set(further):
            raise ValueError(f"d_model: expected a multiple of num_heads = {self.num_heads}, found {self.d_model}")
        size = self.d_model // self.num_heads
        arguments = {
            "num_heads": self.num_heads,
            "key_dim": size,
            "value_dim": size,
            "output_dim": self.d_model,
            "dropout": self.attention_dropout,
        }
        return {**arguments, **further}


class TransformerBlock(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """Base class of blocks: self-attention and a feed-forward network, each in a residual connection.

    A subclass defines `build`, `call` and `compute_output_spec`.

    Args:
        spec: a `BlockSpec`, or its fields as a dict.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`; or None.
        **kwargs: the arguments of `keras.Layer`.
    """

    def __init__(self, spec, self_attention=None, **kwargs):
        super().__init__(**kwargs)
        self.spec = spec = BlockSpec(**spec) if isinstance(spec, Mapping) else spec
        policy = self.dtype_policy
        self.self_attention = SelfAttention(**spec.attention(self_attention), name="self_attention", dtype=policy)
        self.self_attention_residual = self._residual("self_attention_residual")
        self.feed_forward = FeedForward(
            spec.d_model, spec.d_ff, spec.activation, spec.activation_dropout, name="feed_forward", dtype=policy
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _residual(self, name):
        """Makes the residual connection of a sublayer."""
        return Residual(self.spec.norm, self.spec.dropout, name=name, dtype=self.dtype_policy)

    def build_sublayers(self, x_shape):
        """Builds self-attention, feed-forward network and their residual connections for states `(B, T, D)`."""
        for layer in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            build_once(layer, x_shape)

    def attend_to_self(self, x, mask, x_mask, before, positions, distances, training):
        """Applies self-attention in its residual connection.

        Args: as the call arguments of `EncoderBlock`; `mask` is its `attention_mask`.

        Returns:
            `(states, weights, (keys, values))`, see `EncoderBlock`.
        """
        attention = self.self_attention
        distances = Distances(*distances)  # a list in a functional model that Keras has loaded
        if before is None:
            mask = join_masks(mask, x_mask)
        query, keys, values = attention.project(self.self_attention_residual.enter(x), positions, distances, x_mask)
        if before is not None:
            keys, values = (ops.concatenate(pair, axis=2) for pair in zip(before, (keys, values), strict=True))
        y, weights = attention.attend(query, keys, values, mask, training, distances.bias)
        return self.self_attention_residual.leave(x, y, training=training), weights, (keys, values)

    def transform(self, x, training=None):
        """Applies the feed-forward network in its residual connection: `(B, T, D) -> (B, T, D)`."""
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training=training)

    def layer_names(self, name):
        """Names the layers of a block, see `TranslationModel.layer_names`.

        Args:
            name: the name of the block, such as `encoder.0`.

        Returns:
            A dict from layers to names, such as `encoder.0.self`.
        """
        return {
            self.self_attention: f"{name}.self",
            self.self_attention_residual: f"{name}.self",
            self.feed_forward: f"{name}.feed_forward",
            self.feed_forward_residual: f"{name}.feed_forward",
        }

    def compute_mask(self, inputs, previous_mask=None):
        """Returns the mask of x for the states, and no mask for the other results."""
        return (previous_mask,)

    def self_attention_outputs(self, x, before):
        """Returns the results of `attend_to_self` as symbolic tensors, for `compute_output_spec`.

        Keras alone would follow the call, and on PyTorch take keys and values for float32 under mixed precision.
        """
        attention = self.self_attention
        batch, length = x.shape[:2]
        earlier = 0 if before is None else before[0].shape[2]
        total = None if None in (earlier, length) else earlier + length
        weights = keras.KerasTensor((batch, attention.num_heads, length, total), "float32")
        sides = ((batch, attention.key_value_heads, total, n) for n in (attention.key_dim, attention.value_dim))
        keys_values = tuple(keras.KerasTensor(shape, self.compute_dtype) for shape in sides)
        return keras.KerasTensor(x.shape, self.compute_dtype), weights, keys_values


@keras.saving.register_keras_serializable(package="qkv")
class EncoderBlock(TransformerBlock):
    """One layer of the encoder (Vaswani et al. 2017, section 3.1); with a causal mask, of a language model.

    Args:
        spec: a `BlockSpec`, or its fields as a dict.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`; or None.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        attention_mask: bool, broadcastable to `(B, H, T, L + T)`, or None.
        before: (keys, values) of the L positions before x, each `(B, key_value_heads, L, K or V)`, or None.
        positions: `(T, D)` or `(B, T, D)`, added to queries and keys, or None.
        distances: `Distances`; its bias covers all keys.
        x_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps with x. If `before` is None, a position
            may attend only to positions that this mask and `attention_mask` allow.
        training: whether dropout is applied.

    Returns:
        `(states, weights, (keys, values))`: the states are `(B, T, D)`, and the weights float32 `(B, H, T, L + T)`.
        Keys and values are `before` followed by the keys and values of x: `(B, key_value_heads, L + T, K or V)`.

    Raises:
        ValueError: an argument is out of its range, see `BlockSpec` and `AttentionSpec`.

    Example:
        >>> block = EncoderBlock(BlockSpec(d_model=8, num_heads=2, d_ff=16))
        >>> states, weights, keys_values = block(keras.random.normal((1, 3, 8)))
        >>> states, weights, _ = block(keras.random.normal((1, 1, 8)), before=keys_values)  # the step after
        >>> states.shape, weights.shape
        (TensorShape([1, 1, 8]), TensorShape([1, 2, 1, 4]))
    """

    def build(self, x_shape):
        self.build_sublayers(x_shape)

    def call(
        self,
        x,
        attention_mask=None,
        before=None,
        positions=None,
        distances=NO_DISTANCES,
        x_mask=None,
        mask=None,
        training=None,
    ):
        x_mask = mask if x_mask is None else x_mask  # Keras calls the mask of an only input `mask`
        x, weights, keys_values = self.attend_to_self(x, attention_mask, x_mask, before, positions, distances, training)
        return self.transform(x, training=training), weights, keys_values

    def compute_output_spec(self, x, attention_mask=None, before=None, **others):
        return self.self_attention_outputs(x, before)


@keras.saving.register_keras_serializable(package="qkv")
class DecoderBlock(TransformerBlock):
    """One layer of the decoder (Vaswani et al. 2017, section 3.1).

    Args:
        spec: a `BlockSpec`, or its fields as a dict.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`; or None.
        cross_attention: further arguments of `CrossAttention` as a dict, or None.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        memory: `(B, S, D)`, the encoder's states.
        projected: the result of `project_memory` for the memory; None to compute it in the call.
        self_mask: bool, broadcastable to `(B, H, T, L + T)`, or None.
        cross_mask: bool, broadcastable to `(B, H, T, S)`, or None.
        before: (keys, values) of the L positions before x, each `(B * N, key_value_heads, L, K or V)`; None for a whole
            target, with L = 0. If given, x may have N rows for each row of the memory, `(B * N, T, D)`.
        positions: `(T, D)`, added to the queries and to the keys of the self-attention, or None.
        distances: the `Distances` of the self-attention; its bias covers all keys.
        x_mask: bool `(B, T)`; if not given, the mask that Keras keeps with x. If `before` is None, a position may
            attend only to positions that this mask and `self_mask` allow.
        memory_mask: bool `(B, S)`; if not given, the mask that Keras keeps with the memory. A position may attend only
            to positions of the memory that this mask and `cross_mask` allow.
        training: whether dropout is applied.

    Returns:
        `(states, self_weights, cross_weights, (keys, values))`: the states are `(B, T, D)`, the weights of the
        self-attention float32 `(B, H, T, L + T)`, and the weights of the cross-attention float32 `(B, H, T, S)`. Keys
        and values of the self-attention are `before` followed by the keys and values of x.

    Raises:
        ValueError: an argument is out of its range, see `BlockSpec` and `AttentionSpec`.

    Example:
        >>> block = DecoderBlock(BlockSpec(d_model=8, num_heads=2, d_ff=16))
        >>> x, memory = keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 8))
        >>> states, self_weights, cross_weights, _ = block(x, memory)
        >>> states.shape, self_weights.shape, cross_weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]), TensorShape([1, 2, 3, 5]))
    """

    def __init__(self, spec, self_attention=None, cross_attention=None, **kwargs):
        super().__init__(spec, self_attention, **kwargs)
        arguments = self.spec.attention(cross_attention)
        self.cross_attention = CrossAttention(**arguments, name="cross_attention", dtype=self.dtype_policy)
        self.cross_attention_residual = self._residual("cross_attention_residual")

    def build(self, x_shape, memory_shape):
        self.build_sublayers(x_shape)
        build_once(self.cross_attention, x_shape, memory_shape)
        build_once(self.cross_attention_residual, x_shape)

    def start_cache(self, batch):
        """Makes the argument `before` of the first step: keys and values of no positions.

        Args:
            batch: the number of targets, an int or a scalar tensor.

        Returns:
            (keys, values), each `(batch, key_value_heads, 0, K or V)`. The length is not a constant of a graph, because
            it grows.
        """
        attention = self.self_attention
        shape = (batch, attention.key_value_heads, 0 * batch)
        return tuple(ops.zeros((*shape, size), self.compute_dtype) for size in (attention.key_dim, attention.value_dim))

    def project_memory(self, memory, memory_positions=None):
        """Projects a memory to the keys and values of the cross-attention, which no query changes.

        Args:
            memory: `(B, S, D)`.
            memory_positions: `(S, D)`, added for the keys, or None.

        Returns:
            (keys, values), each `(B, key_value_heads, S, K or V)`.
        """
        keys = memory if memory_positions is None else memory + memory_positions
        return self.cross_attention.project_memory(keys, memory)

    def layer_names(self, name):
        cross_names = {self.cross_attention: f"{name}.cross", self.cross_attention_residual: f"{name}.cross"}
        return {**super().layer_names(name), **cross_names}

    def call(
        self,
        x,
        memory,
        projected=None,
        self_mask=None,
        cross_mask=None,
        before=None,
        positions=None,
        distances=NO_DISTANCES,
        x_mask=None,
        memory_mask=None,
        training=None,
    ):
        cross_mask = join_masks(cross_mask, memory_mask)
        x, self_weights, keys_values = self.attend_to_self(x, self_mask, x_mask, before, positions, distances, training)
        query = self.cross_attention_residual.enter(x)
        query = self.cross_attention.project_query(query if positions is None else query + positions)
        memory_keys, memory_values = projected or self.project_memory(memory)
        attend = self.cross_attention.attend if before is None else self.cross_attention.attend_from_rows
        y, cross_weights = attend(query, memory_keys, memory_values, cross_mask, training=training)
        x = self.cross_attention_residual.leave(x, y, training=training)
        return self.transform(x, training=training), self_weights, cross_weights, keys_values

    def compute_output_spec(self, x, memory, projected=None, self_mask=None, cross_mask=None, before=None, **others):
        states, self_weights, keys_values = self.self_attention_outputs(x, before)
        cross_weights = keras.KerasTensor((*self_weights.shape[:3], memory.shape[1]), "float32")
        return states, self_weights, cross_weights, keys_values


@keras.saving.register_keras_serializable(package="qkv")
class FeedForward(ConstructorConfig, ReplaceableLayers, LowRank, keras.Layer):
    """`W_2 dropout(activation(W_1 x + b_1)) + b_2` at every position (Vaswani et al. 2017, section 3.3).

    Args:
        width: D, the width of input and output.
        hidden_dim: the width between the two projections.
        activation: the name of a Keras activation.
        dropout: the share of the hidden units set to zero in training, from 0 to 1.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        training: whether dropout is applied.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: a size is not a whole number of at least 1.

    Example:
        >>> FeedForward(width=8, hidden_dim=16)(keras.random.normal((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, width, hidden_dim, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        check_sizes(width=width, hidden_dim=hidden_dim)
        self.inner = Dense(hidden_dim, activation=activation, name="inner", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.outer = Dense(width, name="outer", dtype=self.dtype_policy)

    def build(self, input_shape):
        build_once(self.inner, input_shape)
        build_once(self.outer, (*input_shape[:-1], self.inner.units))

    def call(self, x, training=None):
        return tap(self, "output", self.outer(self.dropout(self.inner(x), training=training)))

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="qkv")
class Residual(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """The residual connection around a sublayer f, with the normalisation before or after f.

    - `post`: `norm(x + dropout(f(x)))` (Vaswani et al. 2017, section 5.4).
    - `pre`: `x + dropout(f(norm(x)))` (Xiong et al. 2020, table 1); the stack then needs a last normalisation.

    Call it as `y = residual.leave(x, f(residual.enter(x)))`. The two steps are separate because f may also return
    attention weights.

    Args:
        norm: "pre" or "post".
        dropout: the share of the sublayer's output set to zero in training, from 0 to 1.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`, the input of the block.
        y: `(B, T, D)`, the output of the sublayer.
        training: whether dropout is applied.

    Returns:
        `(B, T, D)`, the result of `leave`.

    Raises:
        ValueError: `norm` is neither "pre" nor "post".

    Example:
        >>> residual, x = Residual("pre"), keras.ops.array([[[1.0, 3.0]]])
        >>> residual.leave(x, 10 * residual.enter(x))[0].numpy().round(1).tolist()  # 1 + 10 * -1, 3 + 10 * 1
        [[-9.0, 13.0]]
    """

    def __init__(self, norm="pre", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if norm not in NORMS:
            raise ValueError(f"norm: expected {' or '.join(NORMS)}, found {norm!r}")
        self.norm = norm
        self.normalization = LayerNormalization(epsilon=1e-5, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, x_shape, y_shape=None):
        build_once(self.normalization, x_shape)

    def enter(self, x):
        """Returns the input of the sublayer, `(B, T, D)`, for the block's input x `(B, T, D)`."""
        return self.normalization(x) if self.norm == "pre" else x

    def leave(self, x, y, training=None):
        """Adds the sublayer's output y, after dropout, to the block's input x: `(B, T, D)` all three."""
        joined = x + self.dropout(y, training=training)
        return tap(self, "residual", self.normalization(joined) if self.norm == "post" else joined)

    def call(self, x, y, training=None):
        return self.leave(x, y, training=training)

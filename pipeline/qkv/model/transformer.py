"""The Transformer of Vaswani et al. (2017), with a choice of attention at each of its three sites.

Letters: B batch, H heads, T target positions, S source positions, L cached positions, D model width, K and V key and
value size of a head, N targets of one source, in adjacent rows. V also stands for the vocabulary, in logits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
from keras import ops

from ..attention.cross_attention import CrossAttention
from ..attention.masks import causal_mask, join_masks, padding_mask, segment_mask, segment_offsets
from ..attention.multi_head import AttentionLayer
from ..attention.relative_positions import NO_DISTANCES, Distances
from ..attention.self_attention import SelfAttention
from ..config.choices.model import NORMS, Norm, PositionPlace, Positions, TiedEmbeddings
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_added_layers, build_once
from ..layers.keras_layers import Dense, Dropout, FloatOnly, LayerNormalization, check_sizes, dynamic_shape
from ..layers.low_rank import LowRank
from ..layers.tap import tap
from .embedding import PositionalEmbedding, make_embeddings
from .interface import DecoderOutput, Memory, TranslationModel, check_segments

__all__ = ["BlockSpec", "DecoderBlock", "EncoderBlock", "FeedForward", "FinalNorms", "Residual", "Transformer"]


@keras.saving.register_keras_serializable(package="qkv")
class Transformer(TranslationModel):
    """An encoder and a decoder, each a stack of blocks.

    A subclass replaces blocks by its own in `make_encoder_block` and `make_decoder_block`. The constructor calls them,
    so a subclass sets the attributes that they read before it calls `super().__init__`.

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
        final_norms: the normalisations after the last block of the encoder and of the decoder, a pair; or an empty
            sequence if `norm` is "post".

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
        vocabulary_size: int,
        d_model: int = 128,
        num_heads: int = 4,
        d_ff: int = 256,
        encoder_layers: int = 4,
        decoder_layers: int = 4,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: Norm = "pre",
        positions: Positions = "sinusoidal",
        positions_on: PositionPlace = "input",
        activation: str = "relu",
        tie_embeddings: TiedEmbeddings = "all",
        scale_embeddings: bool = True,
        output_bias: bool = False,
        max_positions: int = 512,
        encoder_self: Mapping[str, Any] | None = None,
        decoder_self: Mapping[str, Any] | None = None,
        cross: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
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
        self.max_positions = max_positions
        policy = self.dtype_policy
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, d_model, tie_embeddings, policy, scale_embeddings, output_bias
        )
        self.source_positions, self.target_positions = (
            PositionalEmbedding(positions, max_positions, dropout, positions_on, name=f"{side}_positions", dtype=policy)
            for side in ("source", "target")
        )
        self.encoder_blocks = [
            self.make_encoder_block(i, spec, encoder_self, name=f"encoder_{i}", dtype=policy)
            for i in range(encoder_layers)
        ]
        self.decoder_blocks = [
            self.make_decoder_block(i, spec, decoder_self, cross, name=f"decoder_{i}", dtype=policy)
            for i in range(decoder_layers)
        ]
        self.final_norms: Any = ()
        if norm == "pre":  # blocks of post-norm end in a normalisation
            self.final_norms = FinalNorms(
                encoder=LayerNormalization(epsilon=1e-5, name="encoder_norm", dtype=policy),
                decoder=LayerNormalization(epsilon=1e-5, name="decoder_norm", dtype=policy),
            )

    def make_encoder_block(
        self, index: int, spec: "BlockSpec", self_attention: Mapping[str, Any] | None, **kwargs: Any
    ) -> "EncoderBlock":
        """Makes a block of the encoder. A subclass overrides this method to use its own block.

        Args:
            index: the index of the block, from 0.
            spec: the arguments that all blocks share.
            self_attention: the model's argument `encoder_self`.
            **kwargs: `name`, such as `encoder_0`, and `dtype`. Pass them on: checkpoints and `training.freeze` use the
                name.
        """
        return EncoderBlock(spec, self_attention, **kwargs)

    def make_decoder_block(
        self,
        index: int,
        spec: "BlockSpec",
        self_attention: Mapping[str, Any] | None,
        cross_attention: Mapping[str, Any] | None,
        **kwargs: Any,
    ) -> "DecoderBlock":
        """Makes a block of the decoder. A subclass overrides this method to use its own block.

        Args:
            index, spec, **kwargs: see `make_encoder_block`.
            self_attention: the model's argument `decoder_self`.
            cross_attention: the model's argument `cross`.
        """
        return DecoderBlock(spec, self_attention, cross_attention, **kwargs)

    def build(self, input_shape: Any = None) -> None:
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
        self.build_added_layers()

    def encode(self, source_ids: Any, training: bool | None = None, segments: Any = None) -> Memory:
        mask = self_mask = padding_mask(source_ids)
        offset = 0
        if segments is not None:
            self_mask, offset = segment_mask(segments, segments), segment_offsets(segments)
        x = self.source_positions(self.source_embedding(source_ids), offset=offset, training=training)
        x = tap(self, "encoder.embedding", x)
        length = dynamic_shape(source_ids)[1]
        positions = self.source_positions.on_queries_and_keys(length, offset)
        # Distances within a pair do not depend on where it starts in its row.
        distances = self.source_positions.distances(
            self.encoder_blocks[0].self_attention, ops.arange(length, dtype="int32")
        )
        weights = []
        for block in self.encoder_blocks:
            x, layer_weights, _ = block(x, self_mask, positions=positions, distances=distances, training=training)
            weights.append(layer_weights)
        if self.final_norms:
            x = self.final_norms.encoder(x)
        prepared = tuple(block.project_memory(x, positions) for block in self.decoder_blocks)
        return Memory(x, mask, tuple(weights), prepared, () if segments is None else segments)

    def value_norms(self, memory: Memory) -> tuple[Any, ...]:
        return tuple(block.cross_attention.value_norms(memory.states) for block in self.decoder_blocks)

    def start_cache(self, memory: Memory) -> tuple[Any, ...]:
        return tuple(block.start_cache(dynamic_shape(memory.states)[0]) for block in self.decoder_blocks)

    def decode(
        self, target_ids: Any, memory: Memory, cache: Any = None, training: bool | None = None, segments: Any = None
    ) -> DecoderOutput:
        check_segments(memory, segments)
        position = offset = 0 if cache is None else dynamic_shape(cache[0][0])[2]
        length = dynamic_shape(target_ids)[1]
        # A single target position may attend to itself and to all cached ones.
        is_single = isinstance(length, int) and length == 1 and segments is None
        self_mask = None if is_single else causal_mask(length, position + length, position)
        cross_mask = memory.mask
        if segments is not None:
            self_mask = ops.logical_and(self_mask, segment_mask(segments, segments))
            cross_mask = segment_mask(segments, memory.segments)
            offset = segment_offsets(segments)
        x = self.target_positions(self.target_embedding(target_ids), offset=offset, training=training)
        x = tap(self, "decoder.embedding", x)
        positions = self.target_positions.on_queries_and_keys(length, offset)
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
                cross_mask=cross_mask,
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

    def attention_layers(self) -> dict[str, list[AttentionLayer]]:
        return {
            "encoder": [block.self_attention for block in self.encoder_blocks],
            "decoder": [block.self_attention for block in self.decoder_blocks],
            "cross": [block.cross_attention for block in self.decoder_blocks],
        }

    def layer_names(self, side: str) -> dict[keras.Layer, str]:
        names: dict[keras.Layer, str] = {self: ""}
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
    norm: Norm = "pre"
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(d_model=self.d_model, num_heads=self.num_heads, d_ff=self.d_ff)

    def attention(self, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the arguments of one of the attention layers as a dict.

        Args:
            further: arguments with precedence over the arguments of the block, such as `{"score": "cosine"}`; or None.

        Raises:
            ValueError: D is not a multiple of H, and `further` has not both `key_dim` and `value_dim`; or `further` has
                `positions`, which cached steps would count from 0 again.
        """
        further = further or {}
        if further.get("positions") is not None:
            raise ValueError(
                f"positions: expected positions={further['positions']!r} as an argument of the model, which counts "
                "the cached tokens too"
            )
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

    Subclass `EncoderBlock` and `DecoderBlock` for your own block. Three methods may be overridden, one by one:

    - `connect_sublayers`: how the sublayers and their residual connections follow each other.
    - `make_residual`: the residual connection of a sublayer, or None.
    - `make_feed_forward`: the feed-forward network.

    Masks, positions and the cache of decoding need no code in a subclass: the block passes them to the attention layers
    itself. The constructor calls both `make_` methods, so a subclass sets the attributes that they read before it calls
    `super().__init__`. Layers that a subclass adds are built with the block.

    Args:
        spec: a `BlockSpec`, or its fields as a dict.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`; or None.
        **kwargs: the arguments of `keras.Layer`.

    Attributes:
        self_attention: the `SelfAttention`.
        feed_forward: the result of `make_feed_forward`.
        self_attention_residual, feed_forward_residual: the results of `make_residual`.
    """

    def __init__(
        self, spec: "BlockSpec | Mapping[str, Any]", self_attention: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec = BlockSpec(**spec) if isinstance(spec, Mapping) else spec
        policy = self.dtype_policy
        self.self_attention = SelfAttention(**spec.attention(self_attention), name="self_attention", dtype=policy)
        self.self_attention_residual = self.make_residual(name="self_attention_residual", dtype=policy)
        self.feed_forward = self.make_feed_forward(name="feed_forward", dtype=policy)
        self.feed_forward_residual = self.make_residual(name="feed_forward_residual", dtype=policy)

    def make_residual(self, *, name: str, **kwargs: Any) -> Any:
        """Makes the residual connection of a sublayer. It can be overridden.

        Args:
            name: the name of the layer: "self_attention_residual", "cross_attention_residual" or
                "feed_forward_residual".
            **kwargs: further arguments of `keras.Layer`, to pass on: `dtype`.

        Returns:
            A `Residual`, or a layer with the same methods `enter` and `leave`. None if `connect_sublayers` does not use
            it.
        """
        return Residual(self.spec.norm, self.spec.dropout, name=name, **kwargs)

    def make_feed_forward(self, **kwargs: Any) -> Any:
        """Makes the feed-forward network, a layer that maps `(B, T, D)` to `(B, T, D)`. It can be overridden.

        Args:
            **kwargs: arguments of `keras.Layer`, to pass on: `name` and `dtype`.
        """
        spec = self.spec
        return FeedForward(spec.d_model, spec.d_ff, spec.activation, spec.activation_dropout, **kwargs)

    def build_sublayers(self, x_shape: Any) -> None:
        """Builds self-attention, feed-forward network and their residual connections for states `(B, T, D)`."""
        for layer in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            build_once(layer, x_shape)

    def attend(
        self,
        x: Any,
        mask: Any = None,
        x_mask: Any = None,
        before: Any = None,
        positions: Any = None,
        distances: Distances = NO_DISTANCES,
        training: bool | None = None,
    ) -> tuple[Any, Any, Any]:
        """Applies self-attention alone, without its residual connection.

        Args: as the call arguments of `EncoderBlock`; `mask` is its `attention_mask`.

        Returns:
            `(output, weights, (keys, values))`, see `EncoderBlock`; the output is `(B, T, D)`.
        """
        attention = self.self_attention
        distances = Distances(*distances)  # a list in a functional model that Keras has loaded
        if before is None:
            mask = join_masks(mask, x_mask)
        query, keys, values = attention.project(x, positions, distances, x_mask)
        if before is not None:
            keys, values = (ops.concatenate(pair, axis=2) for pair in zip(before, (keys, values), strict=True))
        y, weights = attention.attend(query, keys, values, mask, training, distances.bias)
        return y, weights, (keys, values)

    def transform(self, x: Any, training: bool | None = None) -> Any:
        """Applies the feed-forward network in its residual connection: `(B, T, D) -> (B, T, D)`."""
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training=training)

    def layer_names(self, name: str) -> dict[keras.Layer, str]:
        """Names the layers of a block, see `TranslationModel.layer_names`.

        Args:
            name: the name of the block, such as `encoder.0`.

        Returns:
            A dict from layers to names, such as `encoder.0.self`.
        """
        names = {
            self.self_attention: f"{name}.self",
            self.self_attention_residual: f"{name}.self",
            self.feed_forward: f"{name}.feed_forward",
            self.feed_forward_residual: f"{name}.feed_forward",
        }
        return {layer: layer_name for layer, layer_name in names.items() if layer is not None}

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> tuple[Any, ...]:
        """Returns the mask of x for the states, and no mask for the other results."""
        return (previous_mask,)

    def self_attention_outputs(self, x: Any, before: Any) -> tuple[Any, Any, Any]:
        """Returns the states, and the weights, keys and values of `attend`, as symbolic tensors.

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


class _AttentionCall:
    """An attention layer as a function of its input that returns its output, for `connect_sublayers`.

    Args:
        name: the name of the function, for messages.
        attend: a function that returns the output and further results.
    """

    def __init__(self, name: str, attend: Callable[[Any], tuple[Any, ...]]) -> None:
        self._name = name
        self._attend = attend
        self._results: list[tuple[Any, ...]] = []

    def __call__(self, x: Any) -> Any:
        y, *results = self._attend(x)
        self._results.append(tuple(results))
        return y

    def results(self, block: keras.Layer) -> tuple[Any, ...]:
        """Returns the further results of the only call; raises a `ValueError` if there was not exactly one."""
        if len(self._results) != 1:
            raise ValueError(
                f"{type(block).__name__}.connect_sublayers: expected one call of {self._name}, found "
                f"{len(self._results)}; its weights and its cache are results of the block"
            )
        return self._results[0]


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

    def build(self, x_shape: Any) -> None:
        self.build_sublayers(x_shape)
        build_added_layers(self, x_shape)

    def connect_sublayers(self, x: Any, attend_to_self: Callable[[Any], Any], training: bool | None = None) -> Any:
        """Computes the states of the block: self-attention, then the feed-forward network. It can be overridden.

        Args:
            x: `(B, T, D)`, the input of the block.
            attend_to_self: a function that applies self-attention, without its residual connection: `(B, T, D) ->
                (B, T, D)`. Call it exactly once.
            training: whether dropout is applied.

        Returns:
            The states, `(B, T, D)`.
        """
        residual = self.self_attention_residual
        x = residual.leave(x, attend_to_self(residual.enter(x)), training=training)
        return self.transform(x, training=training)

    def call(
        self,
        x: Any,
        attention_mask: Any = None,
        before: Any = None,
        positions: Any = None,
        distances: Distances = NO_DISTANCES,
        x_mask: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any, Any]:
        x_mask = mask if x_mask is None else x_mask  # Keras calls the mask of an only input `mask`
        attend_to_self = _AttentionCall(
            "attend_to_self",
            lambda inputs: self.attend(inputs, attention_mask, x_mask, before, positions, distances, training),
        )
        x = self.connect_sublayers(x, attend_to_self, training=training)
        weights, keys_values = attend_to_self.results(self)
        return x, weights, keys_values

    def compute_output_spec(
        self, x: Any, attention_mask: Any = None, before: Any = None, **others: Any
    ) -> tuple[Any, Any, Any]:
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
        positions: `(T, D)` or `(B, T, D)`, added to the queries and to the keys of the self-attention, or None.
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

    def __init__(
        self,
        spec: "BlockSpec | Mapping[str, Any]",
        self_attention: Mapping[str, Any] | None = None,
        cross_attention: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(spec, self_attention, **kwargs)
        policy = self.dtype_policy
        arguments = self.spec.attention(cross_attention)
        self.cross_attention = CrossAttention(**arguments, name="cross_attention", dtype=policy)
        self.cross_attention_residual = self.make_residual(name="cross_attention_residual", dtype=policy)

    def build(self, x_shape: Any, memory_shape: Any) -> None:
        self.build_sublayers(x_shape)
        build_once(self.cross_attention, x_shape, memory_shape)
        build_once(self.cross_attention_residual, x_shape)
        build_added_layers(self, x_shape, memory_shape)

    def start_cache(self, batch: Any) -> tuple[Any, ...]:
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

    def project_memory(self, memory: Any, memory_positions: Any = None) -> tuple[Any, Any]:
        """Projects a memory to the keys and values of the cross-attention, which no query changes.

        Args:
            memory: `(B, S, D)`.
            memory_positions: `(S, D)` or `(B, S, D)`, added for the keys, or None.

        Returns:
            (keys, values), each `(B, key_value_heads, S, K or V)`.
        """
        keys = memory if memory_positions is None else memory + memory_positions
        return self.cross_attention.project_memory(keys, memory)

    def attend_to_memory(
        self,
        x: Any,
        memory: Any,
        projected: Any = None,
        mask: Any = None,
        before: Any = None,
        positions: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Applies cross-attention alone, without its residual connection.

        Args: as the call arguments of `DecoderBlock`; `mask` is its `cross_mask` joined with its `memory_mask`.

        Returns:
            `(output, weights)`, `(B, T, D)` and float32 `(B, H, T, S)`.
        """
        query = self.cross_attention.project_query(x if positions is None else x + positions)
        memory_keys, memory_values = projected or self.project_memory(memory)
        attend = self.cross_attention.attend if before is None else self.cross_attention.attend_from_rows
        return attend(query, memory_keys, memory_values, mask, training=training)

    def layer_names(self, name: str) -> dict[keras.Layer, str]:
        cross_names = {self.cross_attention: f"{name}.cross"}
        if self.cross_attention_residual is not None:
            cross_names[self.cross_attention_residual] = f"{name}.cross"
        return {**super().layer_names(name), **cross_names}

    def connect_sublayers(
        self,
        x: Any,
        attend_to_self: Callable[[Any], Any],
        attend_to_memory: Callable[[Any], Any],
        training: bool | None = None,
    ) -> Any:
        """Computes the states of the block: self-attention, cross-attention, then the feed-forward network.

        It can be overridden.

        Args:
            x: `(B, T, D)`, the input of the block.
            attend_to_self: a function that applies self-attention, without its residual connection: `(B, T, D) ->
                (B, T, D)`. Call it exactly once.
            attend_to_memory: a function that applies cross-attention, in the same way.
            training: whether dropout is applied.

        Returns:
            The states, `(B, T, D)`.
        """
        for residual, attend in (
            (self.self_attention_residual, attend_to_self),
            (self.cross_attention_residual, attend_to_memory),
        ):
            x = residual.leave(x, attend(residual.enter(x)), training=training)
        return self.transform(x, training=training)

    def call(
        self,
        x: Any,
        memory: Any,
        projected: Any = None,
        self_mask: Any = None,
        cross_mask: Any = None,
        before: Any = None,
        positions: Any = None,
        distances: Distances = NO_DISTANCES,
        x_mask: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any, Any, Any]:
        cross_mask = join_masks(cross_mask, memory_mask)
        attend_to_self = _AttentionCall(
            "attend_to_self",
            lambda inputs: self.attend(inputs, self_mask, x_mask, before, positions, distances, training),
        )
        attend_to_memory = _AttentionCall(
            "attend_to_memory",
            lambda inputs: self.attend_to_memory(inputs, memory, projected, cross_mask, before, positions, training),
        )
        x = self.connect_sublayers(x, attend_to_self, attend_to_memory, training=training)
        self_weights, keys_values = attend_to_self.results(self)
        (cross_weights,) = attend_to_memory.results(self)
        return x, self_weights, cross_weights, keys_values

    def compute_output_spec(
        self,
        x: Any,
        memory: Any,
        projected: Any = None,
        self_mask: Any = None,
        cross_mask: Any = None,
        before: Any = None,
        **others: Any,
    ) -> tuple[Any, Any, Any, Any]:
        states, self_weights, keys_values = self.self_attention_outputs(x, before)
        cross_weights = keras.KerasTensor((*self_weights.shape[:3], memory.shape[1]), "float32")
        return states, self_weights, cross_weights, keys_values


@keras.saving.register_keras_serializable(package="qkv")
class FeedForward(ConstructorConfig, ReplaceableLayers, LowRank, FloatOnly, keras.Layer):
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

    def __init__(
        self, width: int, hidden_dim: int, activation: str = "relu", dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(width=width, hidden_dim=hidden_dim)
        self.inner = Dense(hidden_dim, activation=activation, name="inner", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.outer = Dense(width, name="outer", dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        build_once(self.inner, input_shape)
        build_once(self.outer, (*input_shape[:-1], self.inner.units))
        build_added_layers(self, input_shape)

    def call(self, x: Any, training: bool | None = None) -> Any:
        return tap(self, "output", self.outer(self.dropout(self.inner(x), training=training)))

    def compute_output_shape(self, input_shape: Any) -> Any:
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

    def __init__(self, norm: Norm = "pre", dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if norm not in NORMS:
            raise ValueError(f"norm: expected {' or '.join(NORMS)}, found {norm!r}")
        self.norm = norm
        self.normalization = LayerNormalization(epsilon=1e-5, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, x_shape: Any, y_shape: Any = None) -> None:
        build_once(self.normalization, x_shape)
        build_added_layers(self, x_shape, x_shape)

    def enter(self, x: Any) -> Any:
        """Returns the input of the sublayer, `(B, T, D)`, for the block's input x `(B, T, D)`."""
        return self.normalization(x) if self.norm == "pre" else x

    def leave(self, x: Any, y: Any, training: bool | None = None) -> Any:
        """Adds the sublayer's output y, after dropout, to the block's input x: `(B, T, D)` all three."""
        joined = x + self.dropout(y, training=training)
        return tap(self, "residual", self.normalization(joined) if self.norm == "post" else joined)

    def call(self, x: Any, y: Any, training: bool | None = None) -> Any:
        return self.leave(x, y, training=training)

"""One causal Transformer that reads the source and continues with the target (Liu et al. 2018; Radford et al. 2019).

It reads `source EOS BOS target`. BOS, with which every target starts, separates the two. `encode` processes the source
and returns its keys and values, so that `decode` need not process the source again.

Letters: B batch, H heads, T target positions, S source positions, L cached positions, D model width, V vocabulary, K
and V key and value size of a head.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from ..attention.masks import causal_mask, padding_mask, segment_mask, segment_offsets
from ..attention.multi_head import AttentionLayer
from ..config.choices.model import Norm, PositionPlace, Positions, TiedEmbeddings
from ..layers.constructor_config import build_once
from ..layers.keras_layers import LayerNormalization, check_sizes, dynamic_shape
from ..layers.tap import tap
from .embedding import PositionalEmbedding, check_length, make_embeddings
from .interface import DecoderOutput, Memory, TranslationModel, check_segments, rows_for_each
from .transformer import BlockSpec, EncoderBlock


@keras.saving.register_keras_serializable(package="qkv")
class DecoderOnly(TranslationModel):
    """A causal language model of sentence pairs. A subclass replaces its blocks in `make_block`, see `Transformer`.

    The weights on source positions replace cross-attention. A target position divides its weight between source and
    target, so its weights on the source sum to less than 1.

    Args: as in `Transformer`, except for:
        layers: the number of blocks.
        max_positions: the maximum number of tokens of a source or a target; both together may have twice as many.
        decoder_self: further arguments of the self-attention as a dict, such as `{"score": "cosine"}`; or None.
        source_loss: the weight of the loss on source tokens, at least 0.

    Call arguments and returns: see `TranslationModel`.

    Raises:
        ValueError: an argument is out of its range, see `AttentionSpec`; or a sentence has more than `max_positions`
            tokens, and positions are not relative.

    Example:
        >>> model = DecoderOnly(vocabulary_size=20, d_model=8, num_heads=2, d_ff=16, layers=1)
        >>> source_ids, target_ids = keras.ops.array([[5, 6, 7, 3]]), keras.ops.array([[2, 8, 9]])
        >>> model(source_ids, target_ids).shape
        TensorShape([1, 3, 20])
    """

    def __init__(
        self,
        vocabulary_size: int,
        d_model: int = 128,
        num_heads: int = 4,
        d_ff: int = 256,
        layers: int = 6,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: Norm = "pre",
        positions: Positions = "sinusoidal",
        positions_on: PositionPlace = "input",
        activation: str = "relu",
        tie_embeddings: TiedEmbeddings = "all",
        max_positions: int = 512,
        decoder_self: Mapping[str, Any] | None = None,
        source_loss: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
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
        check_sizes(layers=layers, max_positions=max_positions)
        self.d_model = d_model
        self.source_loss = source_loss
        self.max_positions = max_positions
        policy = self.dtype_policy
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, d_model, tie_embeddings, policy
        )
        self.positions = PositionalEmbedding(
            positions, 2 * max_positions, dropout, positions_on, name="positions", dtype=policy
        )
        self.blocks = [self.make_block(i, spec, decoder_self, name=f"block_{i}", dtype=policy) for i in range(layers)]
        self.final_norm = LayerNormalization(epsilon=1e-5, name="norm", dtype=policy) if norm == "pre" else None

    def make_block(
        self, index: int, spec: BlockSpec, self_attention: Mapping[str, Any] | None, **kwargs: Any
    ) -> EncoderBlock:
        """Makes a block. A subclass overrides this method to use its own block, an `EncoderBlock`.

        Args: as in `Transformer.make_encoder_block`; `name` is such as `block_0`.
        """
        return CausalBlock(spec, self_attention, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        states = (None, None, self.d_model)
        self.build_embeddings()
        # Assigned again, because Keras does not notice that an element of a list was replaced.
        self.blocks = self.blocks
        for layer in (self.positions, *self.blocks, self.final_norm):
            build_once(layer, states)
        self.build_added_layers()

    def encode(self, source_ids: Any, training: bool | None = None, segments: Any = None) -> Memory:
        mask = token_mask = padding_mask(source_ids)
        length = dynamic_shape(source_ids)[1]
        offset, token_positions = 0, ops.arange(length, dtype="int32")
        if segments is None:
            self._check_length("source_ids", length)
        else:
            token_mask, offset = segment_mask(segments, segments), segment_offsets(segments)
            token_positions = token_positions + offset
        x = self.positions(self.source_embedding(source_ids), offset=offset, training=training)
        x = tap(self, "encoder.embedding", x)
        positions = self.positions.on_queries_and_keys(length, offset)
        distances = self.positions.distances(self.blocks[0].self_attention, token_positions)
        causal_token_mask = ops.logical_and(token_mask, causal_mask(length, length))
        weights, prepared = [], []
        for block in self.blocks:
            x, block_weights, keys_values = block(
                x, causal_token_mask, positions=positions, distances=distances, training=training
            )
            weights.append(block_weights)
            prepared.append(keys_values)
        segments = () if segments is None else segments
        return Memory(self._normalized(x), mask, tuple(weights), tuple(prepared), segments)

    def start_cache(self, memory: Memory) -> tuple[Any, ...]:
        """Returns the keys and values of the source. `decode` appends the keys and values of the target to them."""
        return memory.prepared

    def decode(
        self, target_ids: Any, memory: Memory, cache: Any = None, training: bool | None = None, segments: Any = None
    ) -> DecoderOutput:
        check_segments(memory, segments)
        batch, length = dynamic_shape(target_ids)
        source_mask = rows_for_each(memory.mask, batch)
        source_length = dynamic_shape(source_mask)[-1]
        position = 0 if cache is None else dynamic_shape(cache[0][0])[2] - source_length
        target_length = position + length
        target_mask = causal_mask(length, target_length, position)
        source_positions, start = ops.arange(source_length, dtype="int32"), position
        if segments is None:
            self._check_length("target_ids", target_length)
        else:
            source_mask = segment_mask(segments, memory.segments)
            target_mask = ops.logical_and(target_mask, segment_mask(segments, segments))
            source_positions = source_positions + segment_offsets(memory.segments)
            start = segment_offsets(segments)
        mask = ops.concatenate(
            [
                ops.broadcast_to(source_mask, (batch, 1, length, source_length)),
                ops.broadcast_to(target_mask, (batch, 1, length, target_length)),
            ],
            axis=-1,
        )
        # The positions of a target continue from the last token of its source, without the padding between them.
        offset = start + ops.sum(ops.cast(source_mask[:, 0], "int32"), axis=-1)
        x = self.positions(self.target_embedding(target_ids), offset=offset, training=training)
        x = tap(self, "decoder.embedding", x)
        positions = self.positions.on_queries_and_keys(length, offset)
        target_positions = ops.arange(target_length, dtype="int32") + offset - position
        source_positions = ops.broadcast_to(source_positions, (batch, source_length))
        key_positions = ops.concatenate([source_positions, target_positions], 1)
        query_positions = target_positions[:, position:]
        distances = self.positions.distances(self.blocks[0].self_attention, query_positions, key_positions)
        weights, caches = [], []
        for i, block in enumerate(self.blocks):
            keys, values = (memory.prepared if cache is None else cache)[i]
            before = tap(self, f"decoder.{i}.cross.keys", keys), tap(self, f"decoder.{i}.cross.values", values)
            x, block_weights, keys_values = block(
                x, mask, before=before, positions=positions, distances=distances, training=training
            )
            weights.append(block_weights)
            caches.append(keys_values)
        x = self._normalized(x)
        return DecoderOutput(
            x,
            tap(self, "logits", self.output_embedding.logits(x)),
            tuple(block_weights[..., :source_length] for block_weights in weights),
            tuple(block_weights[..., source_length:] for block_weights in weights),
            None if cache is None else tuple(caches),
        )

    def attention_layers(self) -> dict[str, list[AttentionLayer]]:
        layers = [block.self_attention for block in self.blocks]
        return {"encoder": layers, "decoder": layers, "cross": layers}

    def layer_names(self, side: str) -> dict[keras.Layer, str]:
        names: dict[keras.Layer, str] = {self: ""}
        for i, block in enumerate(self.blocks):
            names |= block.layer_names(f"{side}.{i}")
        return names

    def _check_length(self, name: str, length: Any) -> None:
        """Raises a `ValueError` if a sequence has more than `max_positions` tokens, unless positions are relative.

        The table of positions is large enough for a source and a target of that length.
        """
        if self.positions.adds_to is not None:
            check_length(name, length, self.max_positions)

    def _normalized(self, x: Any) -> Any:
        """Applies the last normalisation, if there is one."""
        return x if self.final_norm is None else self.final_norm(x)


@keras.saving.register_keras_serializable(package="qkv")
class CausalBlock(EncoderBlock):
    """An `EncoderBlock` with a causal mask. It is a separate class because weight files contain its name.

    Args, call arguments and returns: as in `EncoderBlock`; `attention_mask` must hide later positions.

    Example:
        >>> block = CausalBlock(BlockSpec(d_model=8, num_heads=2, d_ff=16))
        >>> states, weights, _ = block(keras.random.normal((1, 3, 8)), attention_mask=causal_mask(3, 3))
        >>> weights[0, 0, 0].numpy().tolist()
        [1.0, 0.0, 0.0]
    """

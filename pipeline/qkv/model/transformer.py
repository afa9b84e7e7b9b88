"""The Transformer of Vaswani et al. (2017), with a choice of attention at each of its three sites.

Letters: B batch, H heads, T target positions, S source positions, D model width, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from ..attention.masks import causal_mask, padding_mask
from ..layers.dynamic_shape import check_sizes, dynamic_shape
from ..layers.layer_normalization import LayerNormalization
from .decoder import DecoderBlock
from .embedding import PositionalEmbedding, make_embeddings
from .encoder import EncoderBlock
from .interface import DecoderOutput, Memory, TranslationModel
from .places import Returned
from .sink_shares import sink_shares
from .token_distances import token_distances


@keras.saving.register_keras_serializable(package="qkv")
class Transformer(TranslationModel):
    """Encoder and decoder of blocks.

    Args:
        vocabulary_size: V, of the vocabulary that source and target share.
        d_model: D.
        num_heads: H, a divisor of D.
        d_ff: width of the feed-forward networks' hidden layer.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on the embeddings and on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward networks' hidden layers.
        norm: "pre" or "post".
        positions: a key of `names.model.POSITIONS`. "rotary" and "alibi" act on both self-attentions: tokens of two
            sentences have no distance, so cross-attention has no positions then.
        positions_on: "input", or "queries_and_keys" of every attention (Carion et al. 2020, DETR, section A.4).
        activation: of the feed-forward networks.
        tie_embeddings: which embeddings share one table: "all" (source, target and output), "target" (target and
            output), "none".
        scale_embeddings: whether embeddings are multiplied by `sqrt(D)`.
        output_bias: whether the logits have a bias.
        max_positions: the maximum number of tokens on either side.
        encoder_self: further arguments of the encoder's self-attention as a dict, such as `{"score": "cosine"}`.
        decoder_self: of the decoder's self-attention.
        cross: of the cross-attention.

    Call arguments and returns: see `TranslationModel`.

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
        check_sizes(vocabulary_size=vocabulary_size, d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers, max_positions=max_positions)
        self.d_model = d_model
        policy = self.dtype_policy
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, d_model, tie_embeddings, policy, scale_embeddings, output_bias
        )
        place = {
            "kind": positions,
            "site": positions_on,
            "max_positions": max_positions,
            "dropout": dropout,
        }
        self.source_positions = PositionalEmbedding(name="source_positions", **place, dtype=policy)
        self.target_positions = PositionalEmbedding(name="target_positions", **place, dtype=policy)
        block = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff, "norm": norm, "activation": activation}
        rates = {"attention_dropout": attention_dropout, "activation_dropout": activation_dropout}
        block |= {"dropout": dropout, **rates}
        self.encoder_blocks = [
            EncoderBlock(self_attention=encoder_self, name=f"encoder_{i}", dtype=policy, **block)
            for i in range(encoder_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(self_attention=decoder_self, cross_attention=cross, name=f"decoder_{i}", dtype=policy, **block)
            for i in range(decoder_layers)
        ]
        # Only pre-norm leaves the sum of all sublayers without a normalisation after it.
        self.final_norms: list[Any] = [
            LayerNormalization(epsilon=1e-5, name=f"{side}_norm", dtype=policy)
            for side in ("encoder", "decoder")
            if norm == "pre"
        ]

    def build(self, source_ids_shape=None, target_ids_shape=None):
        states = (None, None, self.d_model)
        for embedding in (self.target_embedding, self.source_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        for layer in (self.source_positions, self.target_positions, *self.encoder_blocks, *self.final_norms):
            layer.build(states)
        for block in self.decoder_blocks:
            block.build(states, states)
        self.built = True

    def encode(self, source_ids, training=None):
        mask = padding_mask(source_ids)
        x = self.source_positions(self.source_embedding(source_ids), training=training)
        length = dynamic_shape(source_ids)[1]
        positions = self.source_positions.on_queries_and_keys(length)
        distances = token_distances(self.source_positions.kind, self.encoder_blocks[0], ops.arange(length))
        weights = []
        for block in self.encoder_blocks:
            x, layer_weights = block(x, mask, positions=positions, **distances._asdict(), training=training)
            weights.append(layer_weights)
        if self.final_norms:
            x = self.final_norms[0](x)
        prepared = tuple(block.project_memory(x, positions) for block in self.decoder_blocks)
        return Memory(x, mask, tuple(weights), prepared)

    def value_norms(self, memory):
        return tuple(block.cross_attention.value_norms(memory.states) for block in self.decoder_blocks)

    def sinks(self, memory, output):
        encoder, decoder = self.encoder_blocks[0], self.decoder_blocks[0]
        return sink_shares(
            encoder=(encoder.self_attention, memory.self_attention),
            decoder=(decoder.self_attention, output.decoder_self),
            cross=(decoder.cross_attention, output.cross),
        )

    def start_cache(self, memory):
        return tuple(block.start_cache(dynamic_shape(memory.states)[0]) for block in self.decoder_blocks)

    def decode(self, target_ids, memory, cache=None, training=None):
        position = 0 if cache is None else dynamic_shape(cache[0].keys)[2]
        length = dynamic_shape(target_ids)[1]
        self_mask = causal_mask(length, position + length, position)
        x = self.target_positions(self.target_embedding(target_ids), offset=position, training=training)
        positions = self.target_positions.on_queries_and_keys(length, position)
        places = ops.arange(position + length)
        distances = token_distances(self.target_positions.kind, self.decoder_blocks[0], places[position:], places)
        self_weights, cross_weights, block_caches = [], [], []
        for i, block in enumerate(self.decoder_blocks):
            x, own, cross, block_cache = block(
                x,
                memory.states,
                projected=memory.prepared[i],
                self_mask=self_mask,
                memory_mask=memory.mask,
                cache=None if cache is None else cache[i],
                positions=positions,
                **distances._asdict(),
                training=training,
            )
            self_weights.append(own)
            cross_weights.append(cross)
            block_caches.append(block_cache)
        if self.final_norms:
            x = self.final_norms[1](x)
        cache = None if cache is None else tuple(block_caches)
        return DecoderOutput(x, self.output_embedding.logits(x), tuple(cross_weights), tuple(self_weights), cache)

    def places(self, side):
        of_source = side == "encoder"
        positions = self.source_positions if of_source else self.target_positions
        yield Returned(positions, "call", f"{side}.embedding")
        for i, block in enumerate(self.encoder_blocks if of_source else self.decoder_blocks):
            yield from block.places(f"{side}.{i}")
        if not of_source:
            yield Returned(self.output_embedding, "logits", "logits")
            return
        for i, block in enumerate(self.decoder_blocks):
            names = f"decoder.{i}.cross.keys", f"decoder.{i}.cross.values"
            yield Returned(block.cross_attention, "project_memory", names)

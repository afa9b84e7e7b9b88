"""The Transformer of Vaswani et al. (2017), with a choice of score function at each of its three attention sites.

Letters: B batch, H heads, T target positions, S source positions, D model width, V vocabulary.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from pipeline.attention.masks import causal_mask, padding_mask
from pipeline.model.decoder import DecoderBlock
from pipeline.model.embedding import PositionalEmbedding, TokenEmbedding
from pipeline.model.encoder import EncoderBlock
from pipeline.model.surface import DecoderOutput, Memory


class Cache(NamedTuple):
    """How far a target has been decoded, and each decoder layer's `BlockCache`."""

    position: Any
    blocks: tuple


@keras.saving.register_keras_serializable(package="qkv")
class Transformer(keras.Model):
    """Translates ids to ids.

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
        positions: "sinusoidal" or "learned".
        activation: of the feed-forward networks.
        tie_embeddings: which share one table: "all" (source, target and output), "target" (target and output), "none".
        max_positions: the most tokens either side can have.
        encoder_self_score: score function of the encoder's self-attention, see `pipeline.attention.scores`.
        decoder_self_score: of the decoder's self-attention.
        cross_score: of the cross-attention.

    Call arguments:
        source_ids: int `(B, S)`, 0 for padding.
        target_ids: int `(B, T)`, starting with BOS.

    Returns:
        Logits, float32 `(B, T, V)`; row t predicts the token after `target_ids[:, t]`.
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
        activation="relu",
        tie_embeddings="all",
        max_positions=512,
        encoder_self_score="scaled_dot",
        decoder_self_score="scaled_dot",
        cross_score="scaled_dot",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if tie_embeddings not in ("all", "target", "none"):
            raise ValueError(f"tie_embeddings: expected all, target or none, found {tie_embeddings!r}")
        if d_model % num_heads:
            raise ValueError(f"d_model: expected a multiple of num_heads = {num_heads}, found {d_model}")
        self.settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
            "norm": norm,
            "positions": positions,
            "activation": activation,
            "tie_embeddings": tie_embeddings,
            "max_positions": max_positions,
            "encoder_self_score": encoder_self_score,
            "decoder_self_score": decoder_self_score,
            "cross_score": cross_score,
        }
        policy = self.dtype_policy
        self.target_embedding = TokenEmbedding(vocabulary_size, d_model, name="target_embedding", dtype=policy)
        self.source_embedding = (
            self.target_embedding
            if tie_embeddings == "all"
            else TokenEmbedding(vocabulary_size, d_model, name="source_embedding", dtype=policy)
        )
        self.output_embedding = (
            TokenEmbedding(vocabulary_size, d_model, name="output_embedding", dtype=policy)
            if tie_embeddings == "none"
            else self.target_embedding
        )
        place = {"kind": positions, "max_positions": max_positions, "dropout": dropout, "dtype": policy}
        self.source_positions = PositionalEmbedding(name="source_positions", **place)
        self.target_positions = PositionalEmbedding(name="target_positions", **place)
        block = {
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "norm": norm,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
            "dtype": policy,
        }
        self.encoder_blocks = [
            EncoderBlock(score=encoder_self_score, name=f"encoder_{i}", **block) for i in range(encoder_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(self_score=decoder_self_score, cross_score=cross_score, name=f"decoder_{i}", **block)
            for i in range(decoder_layers)
        ]
        # Only pre-norm leaves the sum of all sublayers without a normalisation after it.
        self.final_norms = [
            keras.layers.LayerNormalization(epsilon=1e-5, name=f"{side}_norm", dtype=policy)
            for side in ("encoder", "decoder")
            if norm == "pre"
        ]

    def build(self, source_ids_shape=None, target_ids_shape=None):
        states = (None, None, self.settings["d_model"])
        for embedding in (self.target_embedding, self.source_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        for layer in (self.source_positions, self.target_positions, *self.encoder_blocks, *self.final_norms):
            layer.build(states)
        for block in self.decoder_blocks:
            block.build(states, states)
        self.built = True

    def encode(self, source_ids, training=None):
        """Reads the source: int `(B, S) -> Memory`."""
        mask = padding_mask(source_ids)
        x = self.source_positions(self.source_embedding(source_ids), training=training)
        weights = []
        for block in self.encoder_blocks:
            x, layer_weights = block(x, mask, training=training)
            weights.append(layer_weights)
        if self.final_norms:
            x = self.final_norms[0](x)
        return Memory(x, mask, tuple(weights))

    def start_cache(self, memory, length):
        """An empty cache for targets of up to `length` tokens, to decode step by step."""
        return Cache(
            ops.zeros((), "int32"), tuple(block.start_cache(memory.states, length) for block in self.decoder_blocks)
        )

    def decode(self, target_ids, memory, cache=None, training=None):
        """Predicts the token after each target token.

        Args:
            target_ids: int `(B, T)`: whole targets from BOS on, or with a cache the next tokens only. Padding may
                follow a target: it is in no real token's sight.
            memory: what `encode` returned.
            cache: what `start_cache` or the step before returned, or None for whole targets.
            training: whether dropout is applied.

        Returns:
            `DecoderOutput`.
        """
        position = 0 if cache is None else cache.position
        length = ops.shape(target_ids)[1]
        key_length = length if cache is None else ops.shape(cache.blocks[0].keys)[2]
        self_mask = causal_mask(length, key_length, position)
        x = self.target_positions(self.target_embedding(target_ids), offset=position, training=training)
        self_weights, cross_weights, block_caches = [], [], []
        for i, block in enumerate(self.decoder_blocks):
            block_cache = None if cache is None else cache.blocks[i]
            x, own, cross, block_cache = block(
                x,
                memory.states,
                self_mask=self_mask,
                memory_mask=memory.mask,
                cache=block_cache,
                position=position,
                training=training,
            )
            self_weights.append(own)
            cross_weights.append(cross)
            block_caches.append(block_cache)
        if self.final_norms:
            x = self.final_norms[1](x)
        if cache is not None:
            cache = Cache(position + length, tuple(block_caches))
        return DecoderOutput(x, self.output_embedding.logits(x), tuple(cross_weights), tuple(self_weights), cache)

    def call(self, source_ids, target_ids, training=None):
        return self.decode(target_ids, self.encode(source_ids, training=training), training=training).logits

    def get_config(self):
        return {**super().get_config(), **self.settings}

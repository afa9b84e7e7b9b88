"""Every layer and every score, as cases of the contract that layers keep."""

from functools import partial

from qkv.attention.additive import AdditiveAttention
from qkv.attention.cross_attention import CrossAttention
from qkv.attention.mechanisms import LSH, Linformer
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.scores import SCORE_CLASSES, Additive
from qkv.attention.self_attention import SelfAttention
from qkv.model.embedding import PositionalEmbedding, TokenEmbedding
from qkv.model.transformer import BlockSpec, DecoderBlock, EncoderBlock, FeedForward, Residual
from tests.support.layer_contract import B, LayerCase, S, T

THREE = {"query": (B, T, 8), "key": (B, S, 6), "value": (B, S, 7)}
TWO = {"x": (B, T, 8), "memory": (B, S, 6)}
heads = partial(partial, num_heads=2, key_dim=4)
SCORE_CASES = {
    name: LayerCase(score, {"query": (B, 2, T, 4), "key": (B, 2, S, 4)}, length_axis=2)
    for name, score in {**SCORE_CLASSES, "additive with bias": partial(Additive, use_bias=True)}.items()
}
SINK = {
    "weights_are_a_distribution": "part of a row goes to the sink",
    "masked_keys_get_nothing": "part of a row goes to the sink",
    "large_inputs_stay_finite": "part of a row goes to the sink",
}
ONE_HOT = {
    "masked_keys_get_nothing": "one key gets all the weight",
    "gradients": "the argmax has none, so another function's stands in",
}
LAST = {
    "masked_keys_get_nothing": "one key gets all the weight",
    "permuted_keys_permute_weights": "the order decides which key is the last",
}
MIXES = {
    "weights_are_a_distribution": "effective weights are of either sign",
    "masked_keys_get_nothing": "keys cannot be hidden from some queries alone",
    "no_mask_is_a_mask_of_ones": "a mask with a row for each query is refused",
    "a_row_without_keys_is_zero": "keys cannot be hidden from some queries alone",
    "permuted_keys_permute_weights": "each position has a column of its own in the matrices that mix",
    "large_inputs_stay_finite": "effective weights do not sum to one",
}
SORTS = {
    "masked_keys_get_nothing": "a position gives weight only to what shares its bucket, and itself nothing",
    "permuted_keys_permute_weights": "of a bucket's keys, those near in the sequence share a chunk",
    "dropout_spares_the_weights": "training draws hash functions anew",
}
BLOCKWISE = {"dropout_spares_the_weights": "dropout is refused: the weights that it would act on are never held"}
COUNTS = {"permuted_keys_permute_weights": "the layer counts positions, so the order matters"}
linformer = partial(Linformer, projected_length=3, max_length=8)
blockwise = {"mechanism": {"class_name": "blockwise", "config": {"block_size": 2}}}
lsh = partial(LSH, buckets=2, chunk_length=2, rounds=2, seed=1)
ATTENTION_CASES = {
    **{
        f"multi-head {score}": LayerCase(heads(MultiHeadAttention, score=score), THREE, ("key", "value"), 2)
        for score in ("scaled_dot", "concat")
    },
    "multi-head of other sizes": LayerCase(
        heads(MultiHeadAttention, value_dim=3, output_dim=5, use_bias=False), THREE, ("key", "value"), 2
    ),
    "multi-head without projection": LayerCase(
        heads(MultiHeadAttention, value_dim=3, projection=False),
        {"query": (B, T, 8), "key": (B, S, 8), "value": (B, S, 6)},
        ("key", "value"),
        2,
    ),
    "self": LayerCase(heads(SelfAttention, value_dim=3), {"x": (B, S, 6)}, ("x",), 2),
    "self with projected values alone": LayerCase(
        heads(SelfAttention, projection=False, value_projection=True), {"x": (B, S, 8)}, ("x",), 2
    ),
    "cross": LayerCase(heads(CrossAttention, score="general"), TWO, ("memory",), 2),
    "cross with positions": LayerCase(
        heads(CrossAttention), TWO | {"memory_positions": (B, S, 6)}, ("memory", "memory_positions"), 2
    ),
    "self with rotary positions": LayerCase(
        heads(SelfAttention, positions="rotary"), {"x": (B, S, 6)}, ("x",), 2, exempt=COUNTS
    ),
    "cross with rotary positions": LayerCase(
        heads(CrossAttention, positions="rotary"), TWO, ("memory",), 2, exempt=COUNTS
    ),
    "multi-head with ALiBi": LayerCase(
        heads(MultiHeadAttention, positions="alibi"), THREE, ("key", "value"), 2, exempt=COUNTS
    ),
    "additive with bias": LayerCase(partial(AdditiveAttention, units=4, use_bias=True), THREE, ("key", "value")),
    "blockwise": LayerCase(heads(MultiHeadAttention, **blockwise), THREE, ("key", "value"), 2, exempt=BLOCKWISE),
    "shared keys and values": LayerCase(
        heads(MultiHeadAttention, value_dim=3, key_value_heads=1), THREE, ("key", "value"), 2
    ),
    "self with shared keys and values": LayerCase(
        heads(SelfAttention, value_dim=3, key_value_heads=1), {"x": (B, S, 6)}, ("x",), 2
    ),
    "sink": LayerCase(heads(CrossAttention, mechanism="sink", seed=1), TWO, ("memory",), 2, exempt=SINK),
    "one-hot": LayerCase(heads(MultiHeadAttention, mechanism="one_hot"), THREE, ("key", "value"), 2, exempt=ONE_HOT),
    "uniform": LayerCase(heads(MultiHeadAttention, mechanism="uniform"), THREE, ("key", "value"), 2),
    "last": LayerCase(heads(CrossAttention, mechanism="last"), TWO, ("memory",), 2, exempt=LAST),
    "linformer": LayerCase(heads(MultiHeadAttention, mechanism=linformer()), THREE, ("key", "value"), 2, exempt=MIXES),
    "linformer additive": LayerCase(
        partial(AdditiveAttention, units=4, mechanism=linformer()), THREE, ("key", "value"), exempt=MIXES
    ),
    "lsh": LayerCase(heads(SelfAttention, value_dim=3, mechanism=lsh()), {"x": (B, S, 6)}, ("x",), 2, exempt=SORTS),
}
MASKED_CASES = {
    "multi-head": LayerCase(heads(MultiHeadAttention), THREE, masks={"attention_mask": (B, 1, 1, S)}),
    "self": LayerCase(heads(SelfAttention), {"x": (B, S, 6)}, masks={"attention_mask": (B, 1, S, S)}),
    "cross": LayerCase(heads(CrossAttention), TWO, masks={"attention_mask": (B, 2, T, S)}),
    "additive": LayerCase(partial(AdditiveAttention, units=4), THREE, masks={"attention_mask": (B, 1, T, S)}),
    "blockwise": LayerCase(
        heads(CrossAttention, score="additive", **blockwise), TWO, masks={"attention_mask": (B, 1, T, S)}
    ),
    "sink": LayerCase(
        heads(MultiHeadAttention, mechanism="sink", seed=1), THREE, masks={"attention_mask": (B, 2, T, S)}, exempt=SINK
    ),
    "one-hot": LayerCase(
        heads(MultiHeadAttention, mechanism="one_hot"), THREE, masks={"attention_mask": (B, 2, T, S)}, exempt=ONE_HOT
    ),
    "uniform": LayerCase(heads(CrossAttention, mechanism="uniform"), TWO, masks={"attention_mask": (B, 1, T, S)}),
    "last": LayerCase(heads(CrossAttention, mechanism="last"), TWO, masks={"attention_mask": (B, 2, T, S)}),
    "linformer": LayerCase(heads(CrossAttention, mechanism=linformer()), TWO, masks={"attention_mask": (B, 2, 1, S)}),
    "lsh in one chunk": LayerCase(
        heads(SelfAttention, score="cosine", mechanism={"class_name": "lsh", "config": {"buckets": 1, "seed": 1}}),
        {"x": (B, S, 6)},
        masks={"attention_mask": (B, 1, S, S)},
    ),
    "lsh with padding": LayerCase(
        heads(SelfAttention, mechanism=lsh()), {"x": (B, S, 6)}, masks={"attention_mask": (B, 2, 1, S)}
    ),
}


def block(kind, norm="pre", **attention):
    """Makes blocks with a smooth activation, because a finite difference across the corner of a ReLU is no gradient."""
    return lambda dropout=0.0, **arguments: kind(BlockSpec(8, 2, 6, norm, "gelu", dropout), **attention, **arguments)


DECODER_INPUTS = {"x": (B, T, 8), "memory": (B, S, 8)}
DECODER_MASKS = {"self_mask": (1, 1, T, T), "cross_mask": (B, 1, 1, S)}
PART_CASES = {
    "encoder pre": LayerCase(block(EncoderBlock), {"x": (B, S, 8)}, masks={"attention_mask": (B, 1, 1, S)}),
    "feed-forward": LayerCase(partial(FeedForward, 8, 6, activation="gelu"), {"x": (B, T, 8)}),
    "residual pre": LayerCase(partial(Residual, "pre"), {"x": (B, T, 8), "y": (B, T, 8)}),
    "residual post": LayerCase(partial(Residual, "post"), {"x": (B, T, 8), "y": (B, T, 8)}),
    "attention with the context alone": LayerCase(
        heads(SelfAttention, positions="alibi", return_weights=False), {"x": (B, S, 6)}
    ),
    "tokens": LayerCase(partial(TokenEmbedding, 11, 8), {"ids": (B, T)}, vocabulary=11),
    "sinusoidal positions": LayerCase(partial(PositionalEmbedding, "sinusoidal", 9), {"x": (B, T, 8)}),
    "learned positions": LayerCase(partial(PositionalEmbedding, "learned", 9), {"x": (B, T, 8)}),
    "decoder pre": LayerCase(block(DecoderBlock), DECODER_INPUTS, masks=DECODER_MASKS),
    "decoder post": LayerCase(
        block(DecoderBlock, norm="post", self_attention={"score": "additive"}, cross_attention={"score": "cosine"}),
        DECODER_INPUTS,
    ),
}

"""Every part of the model keeps the contract of layers."""

from functools import partial

import pytest

from qkv.model.decoder import DecoderBlock
from qkv.model.embedding import PositionalEmbedding, TokenEmbedding
from qkv.model.encoder import EncoderBlock
from qkv.model.feed_forward import FeedForward
from qkv.model.residual import Residual
from tests.layer_contract import LAYER_CHECKS, B, LayerCase, S, T, save_and_reload, symbolic_shapes

# A smooth activation, because a finite difference across the corner of a ReLU is no gradient.
block = partial(partial, d_model=8, num_heads=2, d_ff=6, activation="gelu")
DECODER_INPUTS = {"x": (B, T, 8), "memory": (B, S, 8)}
DECODER_MASKS = {"self_mask": (1, 1, T, T), "memory_mask": (B, 1, 1, S)}

CASES = {
    "encoder pre": LayerCase(block(EncoderBlock), {"x": (B, S, 8)}, masks={"mask": (B, 1, 1, S)}),
    "encoder post": LayerCase(block(EncoderBlock, norm="post", self_attention={"score": "general"}), {"x": (B, S, 8)}),
    "feed-forward": LayerCase(partial(FeedForward, 8, 6, activation="gelu"), {"x": (B, T, 8)}),
    "residual pre": LayerCase(partial(Residual, "pre"), {"x": (B, T, 8), "y": (B, T, 8)}),
    "residual post": LayerCase(partial(Residual, "post"), {"x": (B, T, 8), "y": (B, T, 8)}),
    "tokens": LayerCase(partial(TokenEmbedding, 11, 8), {"ids": (B, T)}, vocabulary=11),
    "sinusoidal positions": LayerCase(partial(PositionalEmbedding, "sinusoidal", 9), {"x": (B, T, 8)}),
    "learned positions": LayerCase(partial(PositionalEmbedding, "learned", 9), {"x": (B, T, 8)}),
}
DECODER_CASES = {
    "decoder pre": LayerCase(block(DecoderBlock), DECODER_INPUTS, masks=DECODER_MASKS),
    "decoder post": LayerCase(
        block(DecoderBlock, norm="post", self_attention={"score": "additive"}, cross_attention={"score": "cosine"}),
        DECODER_INPUTS,
    ),
}
# A decoder layer without a cache returns None for one, which Keras allows everywhere but in a functional model.
DECODER_CHECKS = [check for check in LAYER_CHECKS if check not in (symbolic_shapes, save_and_reload)]


@pytest.mark.parametrize("check", LAYER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_part_of_the_model_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize("check", DECODER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in DECODER_CASES.items()])
def test_decoder_layer_keeps_the_contract_of_layers(case, check):
    check(case)

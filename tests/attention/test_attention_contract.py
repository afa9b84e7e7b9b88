"""Every attention layer and every score function keeps the contract."""

from functools import partial

import pytest

from pipeline.attention.additive import AdditiveAttention
from pipeline.attention.core import MultiHeadAttention
from pipeline.attention.cross_attention import CrossAttention
from pipeline.attention.scores import SCORES, Additive
from pipeline.attention.self_attention import SelfAttention
from tests.layer_contract import ATTENTION_CHECKS, LAYER_CHECKS, B, LayerCase, S, T

THREE = {"query": (B, T, 8), "key": (B, S, 6), "value": (B, S, 7)}
TWO = {"x": (B, T, 8), "memory": (B, S, 6)}
heads = partial(partial, num_heads=2, key_dim=4)

SCORE_CASES = {
    name: LayerCase(score, {"query": (B, 2, T, 4), "key": (B, 2, S, 4)}, length_axis=2)
    for name, score in {**SCORES, "additive with bias": partial(Additive, use_bias=True)}.items()
}

ATTENTION_CASES = {
    **{
        f"multi-head {score}": LayerCase(heads(MultiHeadAttention, score=score), THREE, ("key", "value"), 2)
        for score in SCORES
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
    "self without projection": LayerCase(heads(SelfAttention, projection=False), {"x": (B, S, 8)}, ("x",), 2),
    "cross": LayerCase(heads(CrossAttention, score="general"), TWO, ("memory",), 2),
    "cross with positions": LayerCase(
        heads(CrossAttention), TWO | {"memory_positions": (B, S, 6)}, ("memory", "memory_positions"), 2
    ),
    "additive": LayerCase(partial(AdditiveAttention, units=4), THREE, ("key", "value")),
    "additive with bias": LayerCase(partial(AdditiveAttention, units=4, use_bias=True), THREE, ("key", "value")),
}
MASKED_CASES = {
    "multi-head": LayerCase(heads(MultiHeadAttention), THREE, masks={"mask": (B, 1, 1, S)}),
    "self": LayerCase(heads(SelfAttention), {"x": (B, S, 6)}, masks={"mask": (B, 1, S, S)}),
    "cross": LayerCase(heads(CrossAttention), TWO, masks={"mask": (B, 2, T, S)}),
    "additive": LayerCase(partial(AdditiveAttention, units=4), THREE, masks={"mask": (B, 1, T, S)}),
}


def named(cases):
    return [pytest.param(case, id=name) for name, case in cases.items()]


@pytest.mark.parametrize("check", LAYER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", named(SCORE_CASES))
def test_score_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize("check", LAYER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", named(ATTENTION_CASES))
def test_attention_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize("check", LAYER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", named(MASKED_CASES))
def test_attention_with_a_mask_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize("check", ATTENTION_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", named(ATTENTION_CASES))
def test_attention_keeps_the_contract_of_attention(case, check):
    check(case)

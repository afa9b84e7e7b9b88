"""Heads of queries that share heads of keys and values."""

import keras
import numpy as np
import pytest

from qkv.attention.cross_attention import CrossAttention
from qkv.attention.mechanisms import Linformer
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.scores import SCORE_CLASSES
from qkv.attention.self_attention import SelfAttention
from tests.support.layer_contract import assert_close, stir

B, T, S, H, K, V = 2, 3, 5, 4, 4, 6


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def spread(kernel, shared):
    """The columns of a projection to `shared` heads, a copy for each head of queries."""
    size = kernel.shape[-1] // shared
    heads = kernel.reshape(*kernel.shape[:-1], shared, size)
    return np.repeat(heads, H // shared, axis=-2).reshape(*kernel.shape[:-1], H * size)


@pytest.mark.parametrize("score", SCORE_CLASSES)
@pytest.mark.parametrize("shared", [1, 2])
def test_shared_heads_are_heads_whose_keys_and_values_have_equal_projections(shared, score):
    x, memory = draw(B, T, 8), draw(B, S, 7, seed=1)
    ours = CrossAttention(H, K, value_dim=V, score=score, key_value_heads=shared)
    full = CrossAttention(H, K, value_dim=V, score=score)
    ours(x, memory), full(x, memory)
    stir(ours)
    for own, other in zip(ours.weights, full.weights, strict=True):
        wide = own.path.split("/")[-2] in ("key", "value")
        other.assign(spread(np.asarray(own), shared) if wide else own)
    mask = np.random.default_rng(2).random((B, H, T, S)) < 0.7
    assert_close(ours(x, memory, attention_mask=mask), full(x, memory, attention_mask=mask), 1e-5)
    assert ours.count_params() < full.count_params()
    assert_close(ours.value_norms(memory), full.value_norms(memory), 1e-5)


@pytest.mark.parametrize("shared", [1, 2])
def test_grouped_queries_equal_those_of_keras(shared):
    query, memory = draw(B, T, 8), draw(B, S, 8, seed=1)
    theirs = keras.layers.GroupQueryAttention(head_dim=K, num_query_heads=H, num_key_value_heads=shared)
    mask = np.random.default_rng(2).random((B, T, S)) < 0.7
    mask[..., 0] = True
    theirs(query, memory)
    stir(theirs)
    expected, weights = theirs(query, memory, attention_mask=mask, return_attention_scores=True)
    ours = MultiHeadAttention(H, K, output_dim=8, key_value_heads=shared)
    ours(query, key=memory, value=memory)
    for side in ("query", "key", "value", "output"):
        kernel, bias = (np.asarray(w) for w in getattr(theirs, f"_{side}_dense").weights)
        own = getattr(ours, f"{side}_projection")
        own.set_weights([kernel.reshape(own.kernel.shape), bias.reshape(-1)])
    assert_close(ours(query, key=memory, value=memory, attention_mask=mask[:, None]), (expected, weights), 1e-5)


def test_self_attention_projects_positions_to_the_shared_heads():
    x, positions = draw(B, S, 8), draw(S, 8, seed=1)
    layer = SelfAttention(H, K, value_dim=V, key_value_heads=2)
    layer(x)
    stir(layer)
    query, key, value = layer.project(x, positions)
    assert [tuple(side.shape[1:]) for side in (query, key, value)] == [(H, S, K), (2, S, K), (2, S, V)]
    assert_close((query, key), layer.project(x + positions)[:2], 1e-5)
    assert_close(value, layer.project(x)[2], 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key_value_heads": 3}, "key_value_heads: expected a divisor of num_heads = 4, found 3"),
        ({"key_value_heads": 2, "projection": False}, "key_value_heads: expected 4 without projection, found 2"),
        ({"key_value_heads": 1, "mechanism": "lsh"}, "key_value_heads: LSH makes queries and keys by one projection"),
    ],
)
def test_heads_that_cannot_be_shared_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(H, K, **settings)


def test_mechanisms_that_mix_keys_take_shared_heads():
    x, memory = draw(B, T, 8), draw(B, S, 8, seed=1)
    layer = CrossAttention(H, K, key_value_heads=1, mechanism=Linformer(projected_length=3, max_length=8))
    context, weights = layer(x, memory)
    assert (context.shape, weights.shape) == ((B, T, H * K), (B, H, T, S))

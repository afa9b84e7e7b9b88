"""Positions that an attention layer counts itself: as its constructor chose, for lengths that no one knew."""

import keras
import numpy as np
import pytest

from qkv.attention import (
    CrossAttention,
    Distances,
    MultiHeadAttention,
    SelfAttention,
    alibi_bias,
    causal_mask,
    rotation,
)
from qkv.model.transformer import Transformer
from tests.support import oracles
from tests.support.layer_contract import assert_close, stir

B, T, S, H, K = 2, 3, 5, 4, 6
KINDS = ("rotary", "alibi")
X, MEMORY = (np.random.default_rng(i).normal(size=(B, n, 8)).astype("float32") for i, n in enumerate((T, S)))
SLOPES = np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])  # Press et al. 2022, section 3, for four heads


def turn(x):
    """Su et al. 2021, equation 13: pair (i, i + K / 2) of position t, a complex number, times `exp(i t theta_i)`."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[-2])[:, None] / 10000.0 ** (np.arange(half) / half)
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


def by_definition(kind, query, key, value, mask):
    """The contexts of all heads and the weights, in float64, of what is projected and split into heads."""
    query, key, value = (np.repeat(x, H // x.shape[1], axis=1) for x in (query, key, value))
    if kind == "rotary":
        query, key = turn(query), turn(key)
    scores = oracles.scores("scaled_dot", query, key)
    if kind == "alibi":
        distances = np.abs(np.arange(query.shape[2])[:, None] - np.arange(key.shape[2]))
        scores = scores - SLOPES[:, None, None] * distances
    weights = oracles.softmax(scores, mask)
    return weights @ value, weights


@pytest.mark.parametrize("key_value_heads", [H, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer_class", [CrossAttention, MultiHeadAttention])
def test_queries_and_keys_are_counted_from_0_each(layer_class, kind, key_value_heads):
    plain = layer_class(H, K, value_dim=3, key_value_heads=key_value_heads)
    layer = layer_class(H, K, value_dim=3, key_value_heads=key_value_heads, positions=kind)
    inputs = {"x": X, "memory": MEMORY}
    if layer_class is MultiHeadAttention:
        inputs = {"query": X, "key": MEMORY, "value": MEMORY}
    plain(**inputs)
    stir(plain)
    layer(**inputs)
    layer.set_weights(plain.get_weights())
    mask = np.random.default_rng(2).random((B, 1, T, S)) < 0.7
    mask[0, :, 1] = False  # a query without keys
    sides = (plain.project_query(X), *plain.project_memory(MEMORY, MEMORY))
    heads, expected = by_definition(kind, *(np.asarray(x, "float64") for x in sides), mask)
    context, weights = layer(**inputs, attention_mask=mask)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(context, plain.merge_heads(heads.astype("float32")), atol=1e-5)
    assert np.abs(np.asarray(weights) - plain(**inputs, attention_mask=mask)[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [*((kind, mechanism) for kind in KINDS for mechanism in ("softmax", "sink", "one_hot")), ("rotary", "blockwise")],
)
def test_self_attention_computes_what_it_does_with_explicit_distances(kind, mechanism):
    layer, plain = (SelfAttention(H, K, mechanism=mechanism, positions=each) for each in (kind, None))
    layer(MEMORY)
    stir(layer)
    plain(MEMORY)
    plain.set_weights(layer.get_weights())
    positions = np.arange(S)
    distances = {
        "rotary": Distances(rotation(positions, K)),
        "alibi": Distances(bias=alibi_bias(positions, positions, H)),
    }[kind]
    mask, x_mask = causal_mask(S, S), np.array([[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]], bool)
    assert_close(
        layer(MEMORY, attention_mask=mask, x_mask=x_mask),
        plain(MEMORY, attention_mask=mask, x_mask=x_mask, distances=distances),
        0,
    )


@pytest.mark.minutes
@pytest.mark.parametrize("kind", KINDS)
def test_a_functional_model_of_unknown_lengths_computes_the_same_when_it_is_loaded(kind, tmp_path):
    x, memory = keras.Input((None, 8)), keras.Input((None, 8))
    own, cross = SelfAttention(H, K, positions=kind), CrossAttention(H, K, positions=kind)
    model = keras.Model([x, memory], [*own(x), *cross(x, memory)])
    assert [tuple(each.shape) for each in model.outputs] == [
        (None, None, H * K),
        (None, H, None, None),
        (None, None, H * K),
        (None, H, None, None),
    ]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for inputs in ([X, MEMORY], [MEMORY, X], [X[:1, :1], MEMORY[:1]]):
        expected = [*own(inputs[0]), *cross(*inputs)]
        assert_close(loaded(inputs), expected, 0)
        assert_close(loaded.predict(inputs, verbose=0), expected, 1e-5)  # in a graph


def test_half_precision_counts_further_than_it_has_numbers_for():
    long = np.tile(X[:1, :1], (1, 300, 1))  # bfloat16 has no 257; all tokens are equal, so positions alone differ
    layer = SelfAttention(H, K, positions="alibi", dtype="bfloat16")
    weights = np.asarray(layer(long)[1])
    assert len(np.unique(weights[0, 0, 270, 256:271])) == 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positions": "learned"}, r"positions: expected None, rotary or alibi, found 'learned'"),
        ({"positions": "alibi", "mechanism": "blockwise"}, "positions: Blockwise cannot use alibi"),
        ({"positions": "alibi", "mechanism": "linformer"}, "positions: Linformer cannot use alibi"),
        ({"positions": "rotary", "mechanism": "linformer"}, "positions: Linformer cannot use rotary"),
        ({"positions": "rotary", "mechanism": "lsh"}, "positions: LSH cannot use rotary"),
        ({"positions": "rotary", "mechanism": "uniform"}, "positions: Uniform compares no queries with keys"),
        ({"positions": "rotary", "key_dim": 5}, "key_dim: .*even size, found 5"),
    ],
)
def test_what_cannot_use_positions_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(**{"num_heads": 2, "key_dim": 4, **arguments})


def test_positions_are_given_once():
    with pytest.raises(ValueError, match="distances: the layer has positions='rotary' already"):
        SelfAttention(2, 4, positions="rotary")(X, distances=Distances(rotation(np.arange(T), 4)))
    with pytest.raises(ValueError, match="positions: expected positions='rotary' as an argument of the model"):
        Transformer(20, d_model=8, num_heads=2, encoder_self={"positions": "rotary"})

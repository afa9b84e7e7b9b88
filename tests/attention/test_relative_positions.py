"""Rotary positions and ALiBi: against their papers, number by number, and what they promise of distances."""

import math
from functools import partial

import keras
import numpy as np
import pytest

from qkv.attention.masks import causal_mask
from qkv.attention.relative_positions import Distances, alibi_bias, alibi_slopes, rotate, rotation
from qkv.attention.self_attention import SelfAttention
from qkv.model.transformer import EncoderBlock
from tests.support import oracles
from tests.support.layer_contract import assert_close, stir

B, H, T, K = 2, 4, 5, 6


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def turned(x, positions):
    """Su et al. 2021, equation 13: the pair (i, i + K / 2) as a complex number, times `exp(i position theta)`."""
    half = x.shape[-1] // 2
    found = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        for i in range(half):
            angle = positions[place[0]][place[2]] / 10000 ** (2 * i / x.shape[-1])
            pair = complex(x[place][i], x[place][i + half]) * complex(math.cos(angle), math.sin(angle))
            found[place][i], found[place][i + half] = pair.real, pair.imag
    return found


def test_each_pair_of_coordinates_is_turned_by_the_angle_of_its_position():
    x, positions = draw(B, H, T, K), np.array([[0, 1, 2, 3, 4], [7, 8, 300, 10, 11]])
    np.testing.assert_allclose(rotate(x, rotation(positions, K)), turned(x, positions), atol=1e-4)
    of_all = rotate(x, rotation(positions[0], K))
    np.testing.assert_allclose(of_all, turned(x, positions[[0, 0]]), atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone_and_lengths_stay():
    query, key = draw(1, H, 1, K), draw(1, H, 1, K, seed=1)

    def product(t, s):
        sides = (rotate(x, rotation(np.array([place]), K)) for x, place in ((query, t), (key, s)))
        return np.sum(np.prod([np.asarray(side) for side in sides], axis=0), axis=-1)

    np.testing.assert_allclose(product(9, 4), product(105, 100), atol=1e-4)
    assert np.abs(product(9, 4) - product(9, 5)).min() > 1e-3
    lengths = np.linalg.norm(rotate(query, rotation(np.array([17]), K)), axis=-1)
    np.testing.assert_allclose(lengths, np.linalg.norm(query, axis=-1), rtol=1e-5)


def test_half_precision_turns_by_the_angle_of_full_precision():
    x = keras.ops.cast(draw(1, H, 1, K), "bfloat16")
    far = rotation(np.array([259]), K)  # bfloat16 has no 259
    found = rotate(x, far)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    expected = turned(np.asarray(keras.ops.cast(x, "float32")), [[259]])
    np.testing.assert_allclose(keras.ops.cast(found, "float32"), expected, atol=0.02)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (8, [2.0**-h for h in range(1, 9)]),  # Press et al. 2022, section 3: 1/2, 1/4, ..., 1/256
        (1, [2.0**-8]),
        (2, [2.0**-4, 2.0**-8]),
        (3, [2.0**-4, 2.0**-8, 2.0**-2]),  # those of 2 heads, then the first of 4
        (12, [2.0**-h for h in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]),
    ],
)
def test_alibi_slopes_are_those_of_the_paper(heads, slopes):
    np.testing.assert_allclose(alibi_slopes(heads), slopes, rtol=1e-6)


def test_alibi_takes_the_slope_for_each_step_of_distance_in_both_directions():
    found = np.asarray(alibi_bias(np.array([[3, 4], [0, 9]]), np.array([[0, 3, 5], [9, 0, 1]]), H))
    assert found.shape == (2, H, 2, 3)
    distances = np.array([[[3, 0, 2], [4, 1, 1]], [[9, 0, 1], [0, 9, 8]]])
    np.testing.assert_allclose(found, -distances[:, None] * alibi_slopes(H)[:, None, None], rtol=1e-6)


@pytest.mark.parametrize("mechanism", ["softmax", "one_hot", "sink"])
def test_self_attention_with_either_equals_the_definition(mechanism):
    x, places = draw(B, T, 8), np.arange(T)
    layer = SelfAttention(H, K, value_dim=3, mechanism=mechanism)
    layer(x)
    stir(layer)
    query, key, value = (np.asarray(side) for side in layer.project(x))
    query, key = (turned(side, [places] * B) for side in (query, key))
    scores = oracles.scores("scaled_dot", query, key) + np.asarray(alibi_bias(places, places, H))
    mask = np.asarray(causal_mask(T, T))
    if mechanism == "sink":
        sinks = np.broadcast_to(np.asarray(layer.mechanism.sink)[None, :, None, None], (*scores.shape[:3], 1))
        allowed = np.concatenate([np.broadcast_to(mask, scores.shape), np.ones((*scores.shape[:3], 1), bool)], -1)
        expected = oracles.softmax(np.concatenate([scores, sinks], -1), allowed)[..., :-1]
    elif mechanism == "one_hot":
        expected = np.eye(T)[np.where(mask, scores, -np.inf).argmax(-1)]
    else:
        expected = oracles.softmax(scores, mask)
    turn, bias = rotation(places, K), alibi_bias(places, places, H)
    context, weights = layer(x, attention_mask=mask, distances=Distances(turn, bias))
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(context, layer.merge_heads((expected @ value).astype("float32")), atol=1e-5)


def test_values_do_not_turn():
    x = draw(B, T, 8)
    layer = SelfAttention(H, K)
    assert_close(layer.project(x, distances=Distances(rotation(np.arange(T), K)))[2], layer.project(x)[2], 0)


def test_what_cannot_be_turned_or_biased_is_refused():
    with pytest.raises(ValueError, match=r"key_dim.*even size, found 5"):
        rotation(np.arange(3), 5)
    bias = alibi_bias(np.arange(T), np.arange(T), H)
    with pytest.raises(ValueError, match=r"bias: Blockwise cannot add a bias.*softmax"):
        SelfAttention(H, K, mechanism="blockwise")(draw(B, T, 8), distances=Distances(bias=bias))


def test_mechanisms_that_compare_nothing_leave_positions_out():
    x, turn, bias = draw(B, T, 8), rotation(np.arange(T), K), alibi_bias(np.arange(T), np.arange(T), H)
    layer = SelfAttention(H, K, mechanism="uniform")
    assert_close(layer(x, distances=Distances(turn, bias)), layer(x), 0)


@pytest.mark.parametrize(
    "make", [partial(SelfAttention, 2, 4), partial(EncoderBlock, {"d_model": 8, "num_heads": 2, "d_ff": 6})]
)
def test_a_functional_model_with_distances_computes_the_same_when_it_is_loaded(make, tmp_path):
    x, positions = keras.Input((5, 8)), keras.Input((5,), dtype="int32")
    known = Distances(rotation(np.arange(5), 4), alibi_bias(np.arange(5), np.arange(5), 2))
    outputs = (
        make()(x, distances=known)[:2],
        make()(x, distances=Distances(bias=alibi_bias(positions, positions, 2)))[:2],
    )
    model = keras.Model([x, positions], outputs)
    model.save(tmp_path / "model.keras")
    inputs = [draw(3, 5, 8), np.array([[0, 1, 2, 3, 4], [4, 2, 7, 1, 0], [3, 3, 1, 0, 9]])]
    assert_close(keras.saving.load_model(tmp_path / "model.keras")(inputs), model(inputs), 0)

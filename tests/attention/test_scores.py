"""Every score function computes its paper's formula, head by head and pair by pair."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.scores import SCORE_CLASSES, Additive, Cosine, General, make_score
from tests.support import oracles
from tests.support.layer_contract import stir


def learnt(layer):
    return {variable.name: variable.numpy() for variable in layer.variables}


@pytest.mark.parametrize("heads", [3, 1])
@pytest.mark.parametrize(
    ("name", "config"), [*((name, {}) for name in SCORE_CLASSES), ("additive", {"use_bias": True})]
)
def test_scores_equal_the_formula_for_each_pair_and_head(name, config, heads):
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(4, heads, 15, 8)), generator.normal(size=(4, heads, 9, 8))
    layer = make_score({"class_name": name, "config": config})
    layer(query, key)
    stir(layer)
    np.testing.assert_allclose(layer(query, key), oracles.scores(name, query, key, learnt(layer)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "weights", "expected"),
    [
        ("dot", [], [11, -2]),  # 1 * 3 + 2 * 4, 1 * 0 + 2 * -1
        ("scaled_dot", [], [7.7781746, -1.4142136]),  # the same over sqrt(2)
        ("general", [[[[1, 2], [3, 4]]]], [61, -10]),  # q^T W = (7, 10)
        ("cosine", [[[[0.6931472]]]], [1.9677398, -1.7888544]),  # 2 * 11 / (sqrt(5) 5), 2 * -2 / (sqrt(5) 1)
        # tanh(4) - 2 tanh(6), tanh(1) - 2 tanh(1)
        ("additive", [[[1, -2]]], [-1.0006463, -0.7615942]),
        # the same: W adds q and k up
        ("concat", [[[[1, 0], [0, 1], [1, 0], [0, 1]]], [[1, -2]]], [-1.0006463, -0.7615942]),
    ],
)
def test_scores_equal_those_computed_by_hand(name, weights, expected):
    query, key = np.float32([[[[1, 2]]]]), np.float32([[[[3, 4], [0, -1]]]])
    layer = make_score(name)
    layer(query, key)
    layer.set_weights([np.float32(weight) for weight in weights])
    np.testing.assert_allclose(layer(query, key)[0, 0, 0], expected, rtol=1e-5)


def test_the_additive_bias_stands_inside_the_tanh():
    layer = Additive(use_bias=True)
    query, key = np.float32([[[[0.5, -1]]]]), np.float32([[[[0.5, 1], [-0.5, 0]]]])
    layer(query, key)
    layer.v.assign([[1, -2]])
    layer.bias.assign([[0, 1]])
    # tanh(1) - 2 tanh(0 + 1), tanh(0) - 2 tanh(-1 + 1)
    np.testing.assert_allclose(layer(query, key)[0, 0, 0], [-0.7615942, 0], atol=1e-6)


def test_the_scale_keeps_the_variance_of_the_scores_at_one():
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(1, 1, 200, 64)), generator.normal(size=(1, 1, 200, 64))
    assert np.std(make_score("scaled_dot")(query, key)) == pytest.approx(1, abs=0.05)
    assert np.std(make_score("dot")(query, key)) == pytest.approx(8, abs=0.4)


def test_general_scores_change_when_query_and_key_are_swapped():
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(1, 2, 3, 4)), generator.normal(size=(1, 2, 3, 4))
    layer = General()
    assert not np.allclose(layer(query, key), np.swapaxes(layer(key, query), -1, -2), atol=1e-2)


def test_cosine_starts_at_its_initial_scale_and_ignores_lengths():
    query, key = np.float32([[[[3, 4]]]]), np.float32([[[[3, 4], [300, 400]]]])
    np.testing.assert_allclose(Cosine()(query, key)[0, 0, 0], [10, 10], rtol=1e-5)
    np.testing.assert_allclose(Cosine(initial_scale=2.0)(query, key)[0, 0, 0], [2, 2], rtol=1e-5)


def test_cosine_of_a_zero_vector_is_zero_with_finite_gradients():
    layer, query = Cosine(), tf.zeros((1, 1, 1, 4))
    key = tf.ones((1, 1, 2, 4))
    with tf.GradientTape() as tape:
        tape.watch(query)
        scores = layer(query, key)
    assert (scores.numpy() == 0).all()
    assert np.isfinite(tape.gradient(scores, query)).all()


@pytest.mark.parametrize("name", SCORE_CLASSES)
def test_a_score_function_may_be_built_inside_a_graph(name):
    layer = make_score(name)

    @tf.function
    def first_call(query, key):
        return layer(query, key)

    assert first_call(tf.ones((1, 2, 3, 4)), tf.ones((1, 2, 5, 4))).shape == (1, 2, 3, 5)


@pytest.mark.parametrize(("name", "fans"), [("general", (64, 64)), ("additive", (64, 1)), ("concat", (128, 64))])
def test_initial_weights_have_the_spread_of_one_heads_matrix_whatever_the_number_of_heads(name, fans):
    spreads = []
    for heads in (1, 64):
        keras.utils.set_random_seed(1)
        layer = make_score(name)
        layer.build((None, heads, None, 64), (None, heads, None, 64))
        spreads.append(float(np.std(layer.variables[0])))
    expected = math.sqrt(2 / sum(fans))  # Glorot and Bengio 2010, equation 16
    assert spreads == pytest.approx([expected, expected], rel=0.2)


def test_an_unknown_score_is_refused_with_its_name():
    with pytest.raises(ValueError, match=r"scaled_dot.*found 'bilinear'"):
        make_score("bilinear")

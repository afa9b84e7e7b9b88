"""Embeddings of tokens and positions, against their formulas."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.model.embedding import (
    PositionalEmbedding,
    TokenEmbedding,
    make_embeddings,
    sinusoidal_positions,
    transposed_tables,
)
from tests.support import oracles
from tests.support.layer_contract import stir


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoidal_positions_equal_the_formula(width):
    expected = [[oracles.sinusoid(t, i, width) for i in range(width)] for t in range(20)]
    np.testing.assert_allclose(sinusoidal_positions(20, width), expected, atol=1e-6)


def test_sinusoidal_positions_equal_those_computed_by_hand():
    # sin 0, cos 0; sin 1, cos 1, and the same of 1 / 10000^(2/4) = 0.01
    np.testing.assert_allclose(
        sinusoidal_positions(2, 4), [[0, 1, 0, 1], [0.841471, 0.540302, 0.0099998, 0.99995]], atol=1e-6
    )


@pytest.mark.parametrize("width", [6, 7])
def test_halved_sinusoids_are_the_same_numbers_in_another_order(width):
    halved, usual = sinusoidal_positions(20, width, halves=True), sinusoidal_positions(20, width)
    np.testing.assert_array_equal(halved, np.concatenate([usual[:, 0::2], usual[:, 1::2]], axis=1))


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_positions_are_those_after_the_offset(kind):
    layer = PositionalEmbedding(kind, max_positions=9)
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    layer(x)
    stir(layer)
    whole = layer(x)
    np.testing.assert_allclose(whole, x + np.array(layer.table)[:6], atol=1e-6)
    for t in range(6):
        np.testing.assert_allclose(layer(x[:, t : t + 1], offset=t)[:, 0], whole[:, t], atol=1e-6)
        step = tf.function(lambda row, offset: layer(row, offset=offset))
        np.testing.assert_allclose(step(x[:, t : t + 1], tf.constant(t))[:, 0], whole[:, t], atol=1e-6)


def test_the_table_of_positions_is_that_of_its_kind():
    for kind in ("sinusoidal", "sinusoidal_halves"):
        layer = PositionalEmbedding(kind, max_positions=9, site="queries_and_keys")
        layer.build((None, None, 6))
        expected = sinusoidal_positions(9, 6, halves=kind == "sinusoidal_halves")
        np.testing.assert_array_equal(layer.table, expected)
        np.testing.assert_array_equal(layer.on_queries_and_keys(4), expected[:4])
        np.testing.assert_array_equal(layer.on_queries_and_keys(4, 2), expected[2:6])
        assert PositionalEmbedding(kind, max_positions=9).on_queries_and_keys(4) is None


@pytest.mark.parametrize(
    ("tied", "equal"), [("all", (True, True)), ("target", (False, True)), ("none", (False, False))]
)
@pytest.mark.parametrize("bias", [False, True])
def test_tied_embeddings_are_one_and_the_bias_is_that_of_the_output(tied, equal, bias):
    target, source, output = make_embeddings(7, 4, tied, "float32", bias=bias)
    assert (source is target, output is target) == equal
    assert output.has_bias == bias
    assert not source.has_bias or source is output
    assert not target.has_bias or target is output


def test_an_unknown_kind_of_positions_is_refused():
    with pytest.raises(ValueError, match=r"kind.*found 'rotery'"):
        PositionalEmbedding("rotery")


@pytest.mark.parametrize(("scale", "bias"), [(True, None), (False, [0, 10, -10])])
def test_embeddings_are_rows_times_the_root_of_the_width_and_logits_are_products_with_rows(scale, bias):
    layer = TokenEmbedding(3, 4, scale=scale, bias=bias is not None)
    layer.build()
    layer.set_weights([np.array([[1, 0, 0, 0], [0, 2, 0, 0], [1, 1, 1, 1]]), *([np.array(bias)] if bias else [])])
    np.testing.assert_allclose(layer(np.array([[2, 1]])), np.array([[[1, 1, 1, 1], [0, 2, 0, 0]]]) * (1 + scale))
    np.testing.assert_allclose(layer.logits(tf.constant([[[1.0, 2.0, 3.0, 4.0]]])), [[np.add([1, 4, 10], bias or 0)]])


@pytest.mark.parametrize("bias", [False, True])
def test_the_product_of_the_factors_is_the_logits(bias):
    layer = TokenEmbedding(5, 4, bias=bias)
    layer.build()
    stir(layer)
    states = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    rows, table = layer.factors(tf.constant(states))
    np.testing.assert_allclose(rows.numpy() @ np.array(table).T, layer.logits(states), atol=1e-5)
    assert (table is layer.table) == (not bias)  # the graph of a model without a bias is as it was


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_tables_are_transposed_once_for_all_logits_of_a_block(dtype):
    layer = TokenEmbedding(5, 4, dtype=dtype)
    layer.build()
    stir(layer)
    states = tf.cast(np.random.default_rng(0).normal(size=(1, 3, 4)), layer.compute_dtype)
    expected = layer.logits(states)
    with transposed_tables(layer):
        layer.set_weights([np.zeros((5, 4))])  # unseen, because the table is transposed already
        np.testing.assert_allclose(layer.logits(states), expected, atol=1e-6)
    assert not np.any(layer.logits(states))


def test_logits_are_float32_whatever_the_model_computes_in():
    layer = TokenEmbedding(3, 4, dtype="mixed_bfloat16")
    assert layer(np.array([[2, 1]])).dtype == tf.bfloat16
    assert layer.logits(tf.ones((1, 2, 4), tf.bfloat16)).dtype == tf.float32


def test_embeddings_start_with_a_variance_of_one():
    assert np.std(TokenEmbedding(500, 64)(np.arange(500)[None])) == pytest.approx(1, abs=0.02)

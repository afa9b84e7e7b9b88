"""The loss is label-smoothed cross-entropy over the tokens that count, and its fused form has the same gradients."""

import math
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from qkv.training.loss import fused_cross_entropy
from tests.support import oracles
from tests.support.layer_contract import assert_close
from tests.support.losses import cross_entropy

CHUNK = 4
D, V = 6, 11


fused = partial(fused_cross_entropy, chunk_tokens=CHUNK)


def case(tokens, scale=1.0, seed=0):
    generator = np.random.default_rng(seed)
    states = tf.constant(generator.normal(size=(tokens, D)) * scale, tf.float32)
    table = tf.constant(generator.normal(size=(V, D)), tf.float32)
    weights = tf.constant(generator.random(tokens) < 0.7, tf.float32)
    return states, table, tf.constant(generator.integers(0, V, tokens), tf.int32), weights


def plain(states, table, *rest):
    return cross_entropy(tf.matmul(states, table, transpose_b=True), *rest)


def value_and_gradients(loss, states, table, *rest, upstream=0.37):
    with tf.GradientTape() as tape:
        tape.watch([states, table])
        total = loss(states, table, *rest)
        scaled = upstream * total
    return [tf.convert_to_tensor(x) for x in (total, *tape.gradient(scaled, [states, table]))]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_equals_the_formula(label_smoothing):
    states, table, targets, weights = case(7)
    logits = states @ tf.transpose(table)
    expected = oracles.cross_entropy(logits.numpy(), targets.numpy(), weights.numpy(), label_smoothing)
    assert float(cross_entropy(logits, targets, weights, label_smoothing)) == pytest.approx(expected, rel=1e-5)


def test_the_loss_equals_that_computed_by_hand():
    logits = tf.math.log([[1.0, 2.0, 1.0], [5.0, 1.0, 1.0]])
    # smoothed: 0.9 log 2 + 0.1 (log 4 + log 2 + log 4) / 3
    for smoothing, expected in ((0.0, math.log(2)), (0.1, 0.9 * math.log(2) + 0.1 * 5 / 3 * math.log(2))):
        loss = fused(logits, tf.eye(3), tf.constant([1, 1]), tf.constant([1.0, 0.0]), smoothing)
        assert float(loss) == pytest.approx(expected)


# Less than a chunk, just one, one and a part, two, and several and a part.
@pytest.mark.parametrize("tokens", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_fused_loss_and_its_gradients_equal_the_plain_ones(tokens, label_smoothing):
    inputs = case(tokens)
    expected = value_and_gradients(plain, *inputs, label_smoothing)
    for loss in (fused, tf.function(fused)):
        assert_close(value_and_gradients(loss, *inputs, label_smoothing), expected)


def test_one_graph_serves_every_number_of_tokens():
    free = [tf.TensorSpec(shape, dtype) for shape, dtype in (((None, D), "float32"), ((V, D), "float32"))]
    free += [tf.TensorSpec((None,), "int32"), tf.TensorSpec((None,), "float32")]
    graph = tf.function(lambda *inputs: value_and_gradients(fused, *inputs), input_signature=free)
    for tokens in (0, 2, 4, 9):
        inputs = case(tokens)
        assert_close(graph(*inputs), value_and_gradients(plain, *inputs))


def test_a_batch_without_tokens_has_loss_and_gradients_of_zero():
    """A worker's share of a batch may be empty."""
    loss, states, table = value_and_gradients(tf.function(fused), *case(0), 0.1)
    assert float(loss) == 0
    assert states.shape == (0, D)
    assert (table.numpy() == 0).all()


@pytest.mark.parametrize("loss", [plain, fused])
def test_padding_changes_neither_loss_nor_gradients(loss):
    states, table, targets, _ = case(6)
    weights = tf.constant([1, 1, 0, 1, 0, 0], tf.float32)
    total, states_gradient, table_gradient = value_and_gradients(loss, states, table, targets, weights, 0.1)
    assert (states_gradient.numpy()[[2, 4, 5]] == 0).all()
    kept = [tf.gather(x, [0, 1, 3]) for x in (states, targets, weights)]
    expected = value_and_gradients(loss, kept[0], table, kept[1], kept[2], 0.1)
    np.testing.assert_allclose(total, expected[0], rtol=1e-5)
    np.testing.assert_allclose(table_gradient, expected[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_huge_scores_give_the_right_loss_and_gradients(scale):
    inputs = case(7, scale)
    expected = value_and_gradients(plain, *inputs, 0.1)
    for found, wanted in zip(value_and_gradients(fused, *inputs, 0.1), expected, strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_bfloat16_states_give_nearly_the_same_loss_and_bfloat16_gradients():
    states, table, *rest = case(11)
    half = tf.cast(states, tf.bfloat16)
    expected = value_and_gradients(plain, tf.cast(half, tf.float32), table, *rest, 0.1)
    found = value_and_gradients(fused, half, table, *rest, 0.1)
    assert [x.dtype for x in found] == [tf.float32, tf.bfloat16, tf.float32]
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(tf.cast(one, tf.float32), wanted, rtol=0.02, atol=0.02 * np.abs(wanted).max())

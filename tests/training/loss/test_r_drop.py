"""The divergence of two passes: against a loop in NumPy, and its fused form against the plain one."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from qkv.training.loss import fused_divergence
from tests.support.losses import divergence

CHUNK, D, V = 4, 6, 11


fused = partial(fused_divergence, chunk_tokens=CHUNK)


def case(tokens, seed=0):
    generator = np.random.default_rng(seed)
    first, second = (tf.constant(generator.normal(size=(tokens, D)), tf.float32) for _ in range(2))
    table = tf.constant(generator.normal(size=(V, D)), tf.float32)
    return first, second, table, tf.constant(generator.random(tokens) < 0.7, tf.float32)


def plain(first, second, table, weights):
    return divergence(first @ tf.transpose(table), second @ tf.transpose(table), weights)


def test_the_divergence_is_the_mean_of_both_directions_over_tokens_of_weight_1():
    first, second, table, weights = case(5)
    expected = 0.0
    for n in range(5):
        p, q = (np.exp(states[n] @ table.numpy().T) for states in (first.numpy(), second.numpy()))
        p, q = p / p.sum(), q / q.sum()
        expected += float(weights[n]) * 0.5 * sum(p * np.log(p / q) + q * np.log(q / p))
    assert float(plain(first, second, table, weights)) == pytest.approx(expected, rel=1e-5)
    assert 0 < float(tf.reduce_sum(weights)) < 5


@pytest.mark.parametrize("tokens", [1, 4, 5, 11])
def test_the_fused_divergence_and_its_gradients_equal_the_plain_ones(tokens):
    *inputs, weights = case(tokens)
    results = []
    for loss in (plain, fused, tf.function(fused)):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            scaled = 0.37 * loss(*inputs, weights)
        results.append([scaled, *tape.gradient(scaled, inputs)])
    for other in results[1:]:
        for found, wanted in zip(other, results[0], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_equal_passes_have_a_divergence_of_zero():
    first, _, table, weights = case(5)
    assert float(fused(first, first, table, weights)) == pytest.approx(0, abs=1e-6)

"""A softmax with a sink: against the definition, and the softmax that it becomes when the sink gets nothing."""

import math

import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.mechanisms.softmax import Sink, Softmax
from qkv.attention.scores import SCORE_CLASSES
from tests.support import oracles
from tests.support.layer_contract import assert_close

B, H, T, S, K, V = 2, 2, 3, 5, 4, 6


def make_sink(inputs, values, **settings):
    mechanism = Sink(**settings)
    mechanism(*inputs)
    mechanism.sink.assign(values)
    return mechanism


def test_weights_are_those_of_a_softmax_over_the_keys_and_the_sink(inputs):
    mask = np.random.default_rng(1).random((B, H, T, S)) < 0.6
    mask[1, 0, 2] = False  # nothing to attend to: all of the row goes to the sink
    context, weights = make_sink(inputs, [0.7, -1.5], score="dot")(*inputs, mask=mask)
    scores = oracles.scores("dot", *inputs[:2])
    for b, h, t in np.ndindex(B, H, T):
        total = math.exp((0.7, -1.5)[h]) + sum(math.exp(scores[b, h, t, s]) for s in range(S) if mask[b, h, t, s])
        for s in range(S):
            expected = math.exp(scores[b, h, t, s]) / total if mask[b, h, t, s] else 0.0
            assert float(weights[b, h, t, s]) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(context, weights.numpy() @ inputs[2], atol=1e-6)
    assert (weights.numpy()[1, 0, 2] == 0).all()
    assert weights.numpy().sum(-1).max() < 1


@pytest.mark.parametrize("score", SCORE_CLASSES)
def test_a_sink_of_minus_infinity_is_the_softmax(inputs, score):
    sink = make_sink(inputs, [-1e9, -1e9], score=score)
    softmax = Softmax(score=score)
    softmax(*inputs)
    softmax.set_weights([w for w in sink.get_weights() if w.shape != (H,) or w.max() > -1e8])
    mask = np.random.default_rng(2).random((B, 1, T, S)) < 0.7
    assert_close(sink(*inputs, mask=mask), softmax(*inputs, mask=mask), 1e-6)


def test_the_sink_learns(inputs):
    mechanism = make_sink(inputs, [0.0, 0.0])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(mechanism(*inputs)[1])
    # d (1 - share) / d sink = -share (1 - share), summed over the rows of a head
    kept = mechanism(*inputs)[1].numpy().sum(-1)
    expected = -(kept * (1 - kept)).sum((0, 2))
    np.testing.assert_allclose(tape.gradient(total, mechanism.sink.value), expected, rtol=1e-4)


def test_the_gradient_is_that_of_a_softmax_over_the_keys_and_the_sink(inputs):
    query, key, value = map(tf.constant, inputs)
    mask = np.random.default_rng(3).random((B, H, T, S)) < 0.6
    mask[0, 1, 1] = False
    mechanism = make_sink(inputs, [0.7, -1.5], score="dot")

    def of_the_definition():
        scores = tf.where(mask, tf.matmul(query, key, transpose_b=True), -np.inf)
        sinks = tf.broadcast_to(mechanism.sink.value[None, :, None, None], (B, H, T, 1))
        return tf.nn.softmax(tf.concat([scores, sinks], -1))[..., :-1] @ value

    gradients = []
    for context_of in (of_the_definition, lambda: mechanism(query, key, value, mask=mask)[0]):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            total = tf.reduce_sum(context_of() ** 2)
        gradients.append(tape.gradient(total, [query, key, value, mechanism.sink.value]))
    for expected, found in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_scores_of_ten_thousand_and_half_precision_stay_finite(inputs):
    query, key, value = inputs
    for settings, atol in (({}, 1e-6), ({"dtype": "mixed_bfloat16"}, 0.02)):
        mechanism = make_sink(inputs, [3.0, -3.0], **settings)
        assert mechanism.sink.dtype == "float32"
        _, weights = mechanism(query * 1e5, key, value)
        assert weights.dtype == tf.float32
        sums = weights.numpy().sum(-1)
        assert np.isfinite(sums).all()
        assert (np.minimum(np.abs(sums), np.abs(sums - 1)) < atol).all()  # one key or the sink has all of it

"""The loss and metrics for `compile` of Keras, against sums over the tokens by hand and the loss of training."""

import doctest

import keras
import numpy as np
import pytest

from qkv.metrics import Perplexity, TokenAccuracy, of_tokens
from qkv.metrics.of_tokens import TokenCrossEntropy
from qkv.training.loss import fused_cross_entropy

TARGETS = np.array([[4, 2, 3, 0], [3, 0, 0, 0]], "int32")
LOGITS = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
REAL = TARGETS != 0
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
LOSSES = -np.log(np.take_along_axis(PROBABILITIES, TARGETS[..., None], -1)[..., 0])


def test_examples_print_what_stands_below_them():
    results = doctest.testmod(of_tokens)
    assert (results.failed, results.attempted > 3) == (0, True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_of_what_training_sums(smoothing):
    states, table = LOGITS.reshape(-1, 5), np.eye(5, dtype="float32")
    expected = fused_cross_entropy(states, table, TARGETS.ravel(), REAL.ravel().astype("float32"), smoothing)
    loss = TokenCrossEntropy(smoothing)
    np.testing.assert_allclose(loss(TARGETS, LOGITS), expected / REAL.sum(), rtol=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    np.testing.assert_allclose(again(TARGETS, LOGITS), loss(TARGETS, LOGITS))


def test_the_loss_of_a_batch_without_a_token_is_zero():
    assert float(TokenCrossEntropy()(np.zeros((2, 4)), LOGITS)) == 0


def test_metrics_are_means_over_the_tokens_of_all_batches():
    accuracy, perplexity = TokenAccuracy(), Perplexity()
    for rows in (slice(0, 1), slice(1, 2)):
        accuracy.update_state(TARGETS[rows], LOGITS[rows])
        perplexity.update_state(TARGETS[rows], LOGITS[rows])
    np.testing.assert_allclose(accuracy.result(), (LOGITS.argmax(-1) == TARGETS)[REAL].mean(), rtol=1e-6)
    np.testing.assert_allclose(perplexity.result(), np.exp(LOSSES[REAL].mean()), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (2, 4)])
def test_weights_of_sentences_and_of_tokens_count(shape):
    weights = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    metric = Perplexity()
    metric.update_state(TARGETS, LOGITS, weights)
    every = REAL * weights.reshape(2, -1)
    np.testing.assert_allclose(metric.result(), np.exp((LOSSES * every).sum() / every.sum()), rtol=1e-5)

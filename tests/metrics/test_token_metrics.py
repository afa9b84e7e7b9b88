"""The metrics for `compile` of Keras, against sums over the tokens by hand."""

import doctest

import numpy as np
import pytest

from qkv.metrics import Perplexity, TokenAccuracy, token_metrics
from tests.support.token_losses import LOGITS, LOSSES, REAL, TARGETS


def test_examples_print_what_stands_below_them():
    results = doctest.testmod(token_metrics)
    assert (results.failed, results.attempted > 1) == (0, True)


def test_metrics_are_means_over_the_tokens_of_all_batches():
    accuracy, perplexity = TokenAccuracy(), Perplexity()
    for rows in (slice(0, 1), slice(1, 2)):
        accuracy.update_state(TARGETS[rows], LOGITS[rows])
        perplexity.update_state(TARGETS[rows], LOGITS[rows])
    np.testing.assert_allclose(accuracy.result(), (LOGITS.argmax(-1) == TARGETS)[REAL].mean(), rtol=1e-6)
    np.testing.assert_allclose(perplexity.result(), np.exp(LOSSES[REAL].mean()), rtol=1e-5)


def test_tokens_of_batches_of_different_lengths_count_the_same():
    accuracy, perplexity = TokenAccuracy(), Perplexity()
    generator = np.random.default_rng(3)
    losses, rights = [], []
    for sentences, length in ((1, 2), (3, 7), (2, 30)):
        targets = generator.integers(0, 5, (sentences, length))  # 0 is padding
        logits = generator.normal(0, 3, (sentences, length, 5)).astype("float32")
        accuracy.update_state(targets, logits)
        perplexity.update_state(targets, logits)
        shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        losses.append(-np.log(np.take_along_axis(shares, targets[..., None], -1))[..., 0][targets > 0])
        rights.append((logits.argmax(-1) == targets)[targets > 0])
    np.testing.assert_allclose(accuracy.result(), np.concatenate(rights).mean(), rtol=1e-6)
    np.testing.assert_allclose(perplexity.result(), np.exp(np.concatenate(losses).mean()), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (2, 4)])
def test_weights_of_sentences_and_of_tokens_count(shape):
    weights = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    metric = Perplexity()
    metric.update_state(TARGETS, LOGITS, weights)
    every = REAL * weights.reshape(2, -1)
    np.testing.assert_allclose(metric.result(), np.exp((LOSSES * every).sum() / every.sum()), rtol=1e-5)

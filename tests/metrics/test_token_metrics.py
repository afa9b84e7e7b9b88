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


@pytest.mark.parametrize("shape", [(2,), (2, 4)])
def test_weights_of_sentences_and_of_tokens_count(shape):
    weights = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    metric = Perplexity()
    metric.update_state(TARGETS, LOGITS, weights)
    every = REAL * weights.reshape(2, -1)
    np.testing.assert_allclose(metric.result(), np.exp((LOSSES * every).sum() / every.sum()), rtol=1e-5)

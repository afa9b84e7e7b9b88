"""The table of metrics: what is in it is measured."""

import pytest

from qkv import metrics
from qkv.metrics import METRIC_FUNCTIONS, MetricInputs, measure_all
from qkv.metrics.likelihood import Likelihood

INPUTS = MetricInputs(["a small dog sees it"], ["the small dog sees it"], Likelihood(2.0, 0.25), bleu_tokenizer="none")


def test_every_metric_is_measured_in_the_order_of_the_table():
    values = measure_all(INPUTS)
    assert list(values) == list(METRIC_FUNCTIONS)
    assert (values["loss"], values["token_accuracy"]) == (2.0, 0.25)
    assert values["perplexity"] == pytest.approx(7.389, abs=1e-3)
    assert values["bleu"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_a_new_row_is_measured_too(monkeypatch):
    def share_of_exact_matches(inputs):
        return sum(map(str.__eq__, inputs.translations, inputs.references)) / len(inputs.references)

    monkeypatch.setitem(metrics.METRIC_FUNCTIONS, "exact", share_of_exact_matches)
    assert measure_all(INPUTS)["exact"] == 0.0

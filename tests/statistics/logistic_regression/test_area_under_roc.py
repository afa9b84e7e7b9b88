"""The area under the ROC curve against its definition: the share of pairs that are in the right order."""

import math

import numpy as np

from qkv.statistics.logistic_regression import area_under_roc


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    generator = np.random.default_rng(3)
    right = generator.random(80) < 0.3
    predicted = np.round(right * 0.4 + generator.random(80), 1)  # with many equal ones
    true, false = predicted[right], predicted[~right]
    wins = [(a > b) + 0.5 * (a == b) for a in true for b in false]
    assert math.isclose(area_under_roc(predicted, right), np.mean(wins))
    assert math.isclose(area_under_roc(-predicted, right), 1 - np.mean(wins))


def test_the_area_does_not_exist_if_all_outcomes_are_equal():
    assert all(math.isnan(area_under_roc(np.arange(3), np.full(3, outcome))) for outcome in (True, False))

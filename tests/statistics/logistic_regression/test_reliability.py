"""Reliability tables against a loop."""

import numpy as np

from qkv.statistics.logistic_regression import ReliabilityBin, calibration_error, reliability_table


def test_bins_hold_their_lower_edge_and_the_last_one_also_holds_one():
    table = reliability_table(np.array([0.0, 0.1, 0.15, 0.95, 1.0]), np.array([0, 0, 1, 1, 1], bool))
    assert [one[:3] for one in table] == [(0.0, 0.1, 1), (0.1, 0.2, 2), (0.9, 1.0, 2)]
    assert table[1].predicted == 0.125 and table[1].right == 0.5


def test_the_error_is_the_mean_distance_over_outcomes():
    table = [ReliabilityBin(0.0, 0.5, 30, 0.2, 0.3), ReliabilityBin(0.5, 1.0, 10, 0.9, 0.5)]
    assert np.isclose(calibration_error(table), (30 * 0.1 + 10 * 0.4) / 40)
    assert np.isnan(calibration_error([]))


def test_probabilities_that_are_what_they_say_have_hardly_any_error_and_others_have_theirs():
    generator = np.random.default_rng(0)
    predicted = generator.random(20_000)
    right = generator.random(20_000) < predicted
    table = reliability_table(predicted, right)
    assert sum(one.number for one in table) == 20_000 and len(table) == 10
    assert calibration_error(table) < 0.02
    assert 0.15 < calibration_error(reliability_table(np.sqrt(predicted), right)) < 0.18  # the mean of sqrt(p) - p

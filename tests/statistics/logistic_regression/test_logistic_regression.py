"""Logistic regression against its own definition."""

import numpy as np
import pytest

from qkv.statistics import logistic_regression
from qkv.statistics.logistic_regression import BLOCK_ROWS, PENALTY, fit_logistic, probability_of


@pytest.fixture
def data():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4000, 3)) * [1.0, 5.0, 0.2] + [0.0, 40.0, -1.0]
    coefficients = np.array([1.5, -0.3, 4.0, 15.0])
    return features, generator.random(4000) < probability_of(features, coefficients), coefficients


def test_the_coefficients_that_made_the_outcomes_are_found(data):
    features, outcomes, coefficients = data
    np.testing.assert_allclose(fit_logistic(features, outcomes)[:-1], coefficients[:-1], rtol=0.15)


def test_no_coefficients_nearby_have_a_lower_penalised_loss(data):
    features, outcomes, _ = data
    features, outcomes = features[:50], outcomes[:50]
    deviation = features.std(axis=0)

    def loss(coefficients):
        probability = 1 / (1 + np.exp(-(features @ coefficients[:-1] + coefficients[-1])))
        likelihood = np.where(outcomes, np.log(probability), np.log(1 - probability)).sum()
        return -likelihood + PENALTY * ((coefficients[:-1] * deviation) ** 2).sum() / 2

    fitted = fit_logistic(features, outcomes)
    steps = np.concatenate([np.eye(4), -np.eye(4)]) * 1e-3 / np.r_[deviation, 1.0]
    assert all(loss(fitted) < loss(fitted + step) for step in steps)


def test_no_product_has_rows_enough_to_be_divided_among_threads(data, monkeypatch):
    sizes = []

    class Watched:
        def __getattr__(self, name):
            return getattr(np, name)

        def matmul(self, one, other):
            sizes.append(max(*one.shape[-2:], *other.shape[-2:]))
            return np.matmul(one, other)

    monkeypatch.setattr(logistic_regression, "np", Watched())
    fit_logistic(*data[:2])
    assert set(sizes) == {BLOCK_ROWS}


@pytest.mark.parametrize("rows", [BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 4000])
def test_blocks_change_no_coefficient(data, monkeypatch, rows):
    features, outcomes, _ = data
    found = fit_logistic(features[:rows], outcomes[:rows])
    monkeypatch.setattr(logistic_regression, "BLOCK_ROWS", rows)
    np.testing.assert_allclose(found, fit_logistic(features[:rows], outcomes[:rows]), rtol=2e-6)


def test_units_of_features_change_nothing(data):
    features, outcomes, _ = data
    plain = probability_of(features, fit_logistic(features, outcomes))
    other = features * [1000.0, 1.0, 0.001] - 7.0
    np.testing.assert_allclose(probability_of(other, fit_logistic(other, outcomes)), plain, rtol=1e-6)


def test_outcomes_that_a_feature_tells_without_fail_leave_coefficients_finite():
    features = np.r_[np.linspace(-9, -8, 20), np.linspace(8, 9, 30)][:, None]
    fitted = fit_logistic(np.c_[features, np.ones(50)], features[:, 0] > 0)
    assert np.isfinite(fitted).all() and fitted[0] > 0
    assert fitted[1] == 0  # of a feature that is always the same


@pytest.mark.parametrize("outcome", [False, True])
def test_outcomes_of_one_kind_are_refused(outcome):
    with pytest.raises(ValueError, match="expected outcomes of both kinds"):
        fit_logistic(np.zeros((3, 1)), np.full(3, outcome))


def test_probabilities_of_great_odds_are_zero_and_one():
    assert probability_of(np.array([[-1e6], [1e6]]), np.array([1.0, 0.0])).tolist() == [0, 1]

"""Kendall's tau: by the pairs that two orders agree on, with ties, for many orders at once."""

from itertools import combinations

import numpy as np
import pytest

from qkv.evaluation.measure_comparison import kendall


def test_tau_counts_pairs():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, size=(2, 4, 3, 7))
    found = kendall(x, y)
    for place in np.ndindex(4, 3):
        a, b = x[place], y[place]
        signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in combinations(range(7), 2)]
        alike = sum(p * q for p, q in signs)
        untied = [sum(sign[side] != 0 for sign in signs) for side in (0, 1)]
        assert found[place] == pytest.approx(alike / np.sqrt(untied[0] * untied[1]))


def test_equal_and_opposite_orders_and_one_that_orders_nothing():
    order = np.array([3.0, 1, 2, 7])
    assert kendall(order, order**3) == pytest.approx(1) and kendall(order, -order) == pytest.approx(-1)
    assert np.isnan(kendall(order, np.ones(4)))

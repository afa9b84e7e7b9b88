"""Sums over permutations: their moments by drawing them, and p-values that are never too small."""

import numpy as np
import pytest

from qkv.statistics.significance import PermutedSums, RowMoments, p_upper_bound, permuted_sums, resampled_sums


def draw_weights(random, heads=2, rows=5, keys=6):
    powers = np.exp(2 * random.normal(size=(1, heads, rows, keys)))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
def test_moments_are_those_of_drawn_permutations(causal):
    random = np.random.default_rng(0)
    rows, keys = 5, 6
    allowed = np.tri(rows, keys, 1, dtype=bool) if causal else np.ones((rows, keys), bool)
    weights = np.where(allowed, draw_weights(random), 0)
    marked = (random.random((rows, keys)) < 0.4) & allowed
    marked[0] = False  # a row without a place
    sums = permuted_sums(RowMoments.of(weights, allowed), marked)
    used = [t for t in range(rows) if 0 < marked[t].sum() < allowed[t].sum()]
    assert sums.rows == len(used) < rows
    np.testing.assert_allclose(sums.observed[0], (weights * marked)[0][:, used].sum((1, 2)))
    drawn = np.zeros((20_000, 2, len(used)))
    for draw in drawn:
        for i, t in enumerate(used):
            here = weights[0, :, t, allowed[t]]
            draw[:, i] = random.permutation(here)[marked[t, allowed[t]]].sum(0)
    totals = drawn.sum(-1)
    np.testing.assert_allclose(sums.expected[0], totals.mean(0), rtol=0.01)
    by_row = drawn.var(0)
    np.testing.assert_allclose(sums.variance[0], np.sqrt(by_row).sum(-1) ** 2, rtol=0.05)
    assert (totals.var(0) <= sums.variance[0]).all()
    assert (totals.max(0) - sums.expected[0] <= sums.largest[0] + 1e-12).all()


def test_rows_without_a_choice_say_nothing():
    weights = draw_weights(np.random.default_rng(0), rows=2, keys=2)
    assert permuted_sums(RowMoments.of(weights, np.ones((2, 2), bool)), np.ones((2, 2), bool)) is None
    assert permuted_sums(RowMoments.of(weights, np.ones((2, 2), bool)), np.zeros((2, 2), bool)) is None


@pytest.mark.parametrize("alike", [False, True])
def test_p_values_are_not_too_small_where_weights_have_no_place(alike):
    """2,000 heads that look at a key at random: each row at its own, or all rows of a sentence at the same one."""
    random = np.random.default_rng(0)
    joined = None
    for _ in range(30):
        rows, keys = random.integers(2, 5, size=2)
        chosen = random.integers(0, keys, size=(1, 2000, 1 if alike else rows, 1))
        weights = np.broadcast_to(np.arange(keys) == chosen, (1, 2000, rows, keys)).astype(float)
        sums = permuted_sums(
            RowMoments.of(weights, np.ones((rows, keys), bool)), np.eye(keys, dtype=bool)[np.zeros(rows, int)]
        )
        joined = joined.plus(sums) if joined else sums
    p = p_upper_bound(joined)
    for level in (0.2, 0.05, 0.01):
        assert (p <= level).mean() <= level
    assert p.min() < 0.5 and p.max() == 1


def test_sums_far_above_chance_have_small_p_values():
    weights = np.eye(6)[None, None, :5]
    sums = permuted_sums(RowMoments.of(weights, np.ones((5, 6), bool)), np.eye(5, 6, dtype=bool))
    many = sums
    for _ in range(29):
        many = many.plus(sums)
    assert p_upper_bound(sums)[0, 0] > 0.05 > 1e-6 > p_upper_bound(many)[0, 0]


def test_resampled_sums_are_drawn_from_the_sum_itself_and_the_others():
    observed, replacements = np.array([[3.0]]), np.array([[[1.0]], [[0.0]], [[0.0]]])
    sums = resampled_sums(observed, replacements, 4)
    assert (sums.expected, sums.variance, sums.largest) == (1.0, 1.5, 2.0)


def test_the_bound_is_that_of_bernstein():
    one = np.ones((1, 1))
    sums = PermutedSums(observed=4 * one, expected=one, variance=one, largest=2 * one, rows=9)
    assert p_upper_bound(sums)[0, 0] == pytest.approx(np.exp(-9 / (2 * (1 + 2 * 3 / 3))))
    assert p_upper_bound(sums._replace(observed=one / 2))[0, 0] == 1

"""Paired tests over sentences: p is uniform where nothing differs, small where something does; Holm by hand."""

import numpy as np

from qkv.statistics.significance import difference_interval, holm, randomisation_p

TRIALS, SENTENCES = 1000, 100


def draw_counts(random, rates, trials=TRIALS):
    """Errors and lengths of sentences, `(N, trials)`; both systems find the same sentences hard."""
    lengths = random.integers(3, 40, size=(SENTENCES, trials))
    hard = random.beta(3, 7, size=(SENTENCES, trials))
    return [(random.binomial(lengths, np.clip(hard + rate, 0, 1)).astype(float), lengths * 1.0) for rate in rates]


def test_p_is_uniform_where_nothing_differs():
    """The Kolmogorov-Smirnov distance of 1,000 uniform numbers is below 0.0515 in 99 of 100 cases."""
    p = np.sort(randomisation_p(*draw_counts(np.random.default_rng(1), [0, 0]), samples=999))
    steps = np.arange(1, TRIALS + 1) / TRIALS
    assert max(np.abs(steps - p).max(), np.abs(steps - 1 / TRIALS - p).max()) < 0.0515


def test_p_of_few_and_tied_differences_is_never_too_small():
    """Links of 100 short sentences, most of them alike in both systems: p <= a in at most a of the sets."""
    random = np.random.default_rng(2)
    below = np.full((SENTENCES, TRIALS), 4.0)
    same = random.integers(0, 4, size=below.shape)
    first, second = (same + (random.random(below.shape) < 0.02) for _ in range(2))
    p = randomisation_p((first, below), (second, below), samples=999)
    for level in (0.01, 0.05, 0.1, 0.5):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / TRIALS)


def test_p_is_small_where_systems_differ_and_1_where_they_are_the_same():
    one, other = draw_counts(np.random.default_rng(3), [0, 0.05], trials=50)
    assert (randomisation_p(one, other) < 0.05).mean() > 0.9
    assert (randomisation_p(one, one) == 1).all()
    assert np.isnan(randomisation_p((np.zeros(3), np.zeros(3)), (np.ones(3), np.ones(3))))


def test_the_interval_of_a_difference_holds_it_in_95_of_100_sets():
    one, other = draw_counts(np.random.default_rng(4), [0, 0])
    low, high = difference_interval(one, other, samples=400)
    assert 930 <= ((low <= 0) & (high >= 0)).sum() <= 970


def test_holm_is_as_computed_by_hand():
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, and 0.04, which is no less than 0.06."""
    found = holm(np.array([[0.01, 0.04, np.nan], [0.03, 0.005, np.nan]]))
    np.testing.assert_allclose(found, [[0.03, 0.06, np.nan], [0.06, 0.02, np.nan]])
    np.testing.assert_array_equal(holm(np.array([0.9, 0.8])), [1, 1])

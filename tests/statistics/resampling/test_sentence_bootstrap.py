"""Intervals over sentences: as drawing them one by one gives, and true as often as they say."""

import numpy as np

from qkv.statistics import resampling
from qkv.statistics.resampling import interval, ratio, ratio_interval, resample, sentence_counts
from qkv.statistics.significance import randomisation_p


def test_samples_are_those_of_sentences_drawn_one_by_one():
    numerators, denominators = np.arange(12.0).reshape(4, 3), np.arange(1.0, 13.0).reshape(4, 3)
    counts = sentence_counts(4, samples=5, seed=3)
    expected = []
    for row in counts.astype(int):
        drawn = np.repeat(np.arange(4), row)
        expected.append(numerators[drawn].sum(0) / denominators[drawn].sum(0))
    np.testing.assert_allclose(resample(numerators, denominators, counts), expected)
    assert (counts.sum(axis=1) == 4).all()


def test_many_sentences_are_drawn_in_parts_and_the_interval_is_the_same(monkeypatch):
    random = np.random.default_rng(1)
    # Sums of these are exact, so they are equal in any order that a processor adds them in.
    numerators, denominators = random.integers(1024, size=(50, 2)) / 1024, np.ones((50, 2))
    expected = ratio_interval(numerators, denominators)
    np.testing.assert_array_equal(expected, interval(resample(numerators, denominators, sentence_counts(50))))
    p = randomisation_p((numerators, denominators), (numerators[::-1], denominators))
    monkeypatch.setattr(resampling, "MOST_COUNTS_IN_MEMORY", 7 * 50)
    assert resampling.parts_of_samples(20, 50) == [7, 7, 6]
    np.testing.assert_array_equal(ratio_interval(numerators, denominators), expected)
    np.testing.assert_array_equal(randomisation_p((numerators, denominators), (numerators[::-1], denominators)), p)


def test_a_measure_without_anything_to_measure_is_not_a_number():
    assert np.isnan(ratio(np.zeros((3, 2)), np.zeros((3, 2)))).all()


def test_the_interval_of_one_measure_is_that_of_it_among_others():
    random = np.random.default_rng(2)
    numerators, denominators = random.uniform(size=(30, 3)), random.uniform(1, 2, size=(30, 3))
    low, high = ratio_interval(numerators, denominators)
    np.testing.assert_allclose(ratio_interval(numerators[:, 1], denominators[:, 1]), (low[1], high[1]))
    assert np.isnan(ratio_interval(np.zeros(3), np.zeros(3))).all()


def test_intervals_hold_the_true_ratio_in_95_of_100_sets():
    """Sentences of very different lengths, 200 a set; the binomial error of 300 sets is 1.3 %."""
    random = np.random.default_rng(7)
    inside = 0
    for trial in range(300):
        lengths = random.integers(3, 40, size=200).astype(float)
        errors = random.binomial(lengths.astype(int), random.beta(3, 7, size=200)).astype(float)
        counts = sentence_counts(200, samples=400, seed=trial)
        low, high = interval(resample(errors, lengths, counts))
        inside += low <= 0.3 <= high
    assert 0.92 * 300 <= inside <= 0.98 * 300

"""Intervals over seeds and sentences hold the mean of all seeds as often as they say."""

import numpy as np
import pytest

from qkv.statistics.resampling import draw_over_seeds, interval, p_of_samples, sentence_counts

SENTENCES, TRIALS, SAMPLES = 100, 1000, 400


def draw_scores(random, seeds, of_sentences, spread):
    """What each seed scores on each sentence, `(seeds, SENTENCES)`: 0 on average over all seeds and sentences."""
    of_seeds = spread * random.normal(size=(seeds, 1))
    return of_sentences + of_seeds + 0.5 * random.normal(size=(seeds, SENTENCES))


def over_seeds(scores, counts, seed):
    return draw_over_seeds(scores @ counts.T / SENTENCES, scores.mean(axis=1), seed=seed)


@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.2), (3, 0.2), (3, 0.05), (5, 0.3)])
def test_intervals_hold_the_mean_of_all_seeds_in_at_least_95_of_100_cases(seeds, spread):
    """Where seeds differ by about as much as sentences let them, or less, intervals are a little too wide."""
    random, counts, inside = np.random.default_rng(1), sentence_counts(SENTENCES, samples=SAMPLES), 0
    for trial in range(TRIALS):
        scores = draw_scores(random, seeds, random.normal(size=SENTENCES), spread)
        low, high = interval(over_seeds(scores, counts, trial))
        inside += low <= 0 <= high
    assert 930 <= inside <= 990


def test_p_of_two_ways_to_train_that_do_not_differ_is_small_as_rarely_as_it_says():
    random, counts, p = np.random.default_rng(3), sentence_counts(SENTENCES, samples=SAMPLES), []
    for trial in range(TRIALS):
        of_sentences = random.normal(size=SENTENCES)
        first, second = (over_seeds(draw_scores(random, 3, of_sentences, 0.2), counts, 2 * trial + i) for i in range(2))
        p.append(p_of_samples(second - first))
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level * (1 - level) / TRIALS)


def test_one_seed_has_the_level_of_sentences_alone():
    drawn = np.arange(5.0)[None]
    np.testing.assert_array_equal(draw_over_seeds(drawn, np.array([2.0])), drawn[0])
    assert p_of_samples(np.ones(99)) == pytest.approx(0.02) and p_of_samples(np.zeros(9)) == 1

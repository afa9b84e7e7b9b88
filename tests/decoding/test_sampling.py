"""Drawing tokens: what can be drawn, how often it is, and that a seed settles it."""

import keras
import numpy as np
import pytest

from qkv.decoding.sampling import Sampling, narrow_scores

SCORES = np.log(np.array([[0.1, 0.5, 0.05, 0.3, 0.05], [0.2, 0.2, 0.2, 0.2, 0.2]], "float32"))


def left(scores):
    return [sorted(np.flatnonzero(np.isfinite(row)).tolist()) for row in np.asarray(scores)]


def probabilities(scores):
    powers = np.exp(np.asarray(scores))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize(("top_k", "expected"), [(0, [0, 1, 2, 3, 4]), (1, [1]), (2, [1, 3]), (3, [0, 1, 3])])
def test_top_k_leaves_only_the_k_likeliest_tokens(top_k, expected):
    assert left(narrow_scores(SCORES, top_k=top_k))[0] == expected


@pytest.mark.parametrize(
    ("top_p", "expected"), [(0.4, [1]), (0.5001, [1, 3]), (0.79, [1, 3]), (0.85, [0, 1, 3]), (1.0, [0, 1, 2, 3, 4])]
)
def test_top_p_leaves_only_the_fewest_tokens_that_hold_the_probability(top_p, expected):
    assert left(narrow_scores(SCORES, top_p=top_p))[0] == expected


def test_tokens_that_tie_with_the_last_allowed_one_can_be_drawn():
    assert left(narrow_scores(SCORES, top_k=2))[1] == left(narrow_scores(SCORES, top_p=0.3))[1] == [0, 1, 2, 3, 4]


def test_top_p_counts_the_probability_that_temperature_and_top_k_leave():
    assert left(narrow_scores(SCORES, top_k=3, top_p=0.6))[0] == [1, 3]  # 5/9 + 3/9 of the three
    assert left(narrow_scores(SCORES, temperature=0.5, top_p=0.7))[0] == [1]  # 0.25 of 0.355


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_is_a_power_of_the_probabilities(temperature):
    expected = np.exp(SCORES) ** (1 / temperature)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(probabilities(narrow_scores(SCORES, temperature=temperature)), expected, rtol=1e-5)


def test_tokens_are_drawn_as_often_as_their_probability_says():
    drawn = np.asarray(Sampling(top_k=3).pick(np.repeat(SCORES[:1], 20_000, axis=0), 0))
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, [1 / 9, 5 / 9, 0, 3 / 9, 0], atol=0.02)
    assert shares[2] == shares[4] == 0


def test_the_same_seed_draws_the_same_and_each_call_anew():
    def draw(seed, drawn=0):
        search = Sampling(seed=seed, drawn=drawn)
        return [np.asarray(search.pick(np.repeat(SCORES, 50, axis=0), step)).tolist() for step in range(3)]

    assert draw(1) == draw(1) != draw(2)
    first, second, third = draw(1)
    assert first != second != third
    assert draw(1, drawn=2)[0] == third
    generator = keras.random.SeedGenerator(1)
    expected = [keras.random.categorical(np.repeat(SCORES, 50, axis=0), 1, seed=generator)[:, 0] for _ in range(3)]
    np.testing.assert_array_equal(draw(1), expected)

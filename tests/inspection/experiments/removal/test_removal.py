"""Which tokens and units are taken away: against sorting one by one, and as often as their shares say."""

import numpy as np
import pytest

from qkv.inspection.experiments.removal import keep_units, tokens_of_share, top_tokens


@pytest.mark.parametrize(
    ("share", "tokens", "expected"), [(0, 9, 0), (0.1, 1, 1), (0.1, 10, 1), (0.1, 11, 2), (0.2, 15, 3), (1, 7, 7)]
)
def test_shares_are_rounded_up_to_whole_tokens(share, tokens, expected):
    assert tokens_of_share(share, tokens) == expected


def test_the_highest_scores_come_first_and_noise_orders_equal_ones():
    generator = np.random.default_rng(0)
    scores, noise = generator.integers(0, 3, size=(6, 8)).astype(float), generator.random((6, 8))
    found = top_tokens(scores, noise, (0.0, 0.3, 1.0))
    assert not found[0].any() and found[2].all()
    for row in range(6):
        best = sorted(range(8), key=lambda s: (scores[row, s], noise[row, s]), reverse=True)
        assert set(np.flatnonzero(found[1, row])) == set(best[:3])


def test_equal_scores_are_ordered_as_chance_orders():
    noise = np.random.default_rng(0).random((5, 9))
    np.testing.assert_array_equal(top_tokens(np.full((5, 9), 0.1), noise), top_tokens(noise, noise))


def test_units_are_drawn_as_often_as_their_share_and_one_measure_has_what_the_other_lacks():
    shares = np.tile([0.1, 0.6, 0.3], (4, 1))
    positions = np.array([2, 5, 2, 5])
    kept = keep_units(positions, shares, np.array([True, True, False, False]), 4000, (0, 7))
    np.testing.assert_allclose(kept[:2].mean(axis=(0, 2)), [0.1, 0.6, 0.3], atol=0.03)
    np.testing.assert_array_equal(kept[2:], ~kept[:2])
    assert np.any(kept[0] != kept[1])
    alone = keep_units(positions[1:2], shares[1:2], np.array([True]), 4000, (0, 7))
    np.testing.assert_array_equal(alone[0], kept[1])

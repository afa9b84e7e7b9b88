"""Epochs have the shares that were asked for, and every pair of a corpus comes equally often."""

from functools import partial

import numpy as np
import pytest

from qkv.text import batch_plan
from qkv.text.batch_plan import EpochPlan, plan_batches
from qkv.text.corpora import mixture
from qkv.text.corpora.mixture import Mixture, make_mixture
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences

# Three corpora; the first two have joined pairs behind all.
RANGES = [[(0, 700), (1000, 1040)], [(700, 990), (1040, 1040)], [(990, 1000), (1040, 1050)]]
SIZES = [740, 290, 20]


def corpus_of(rows):
    """The corpus of each row, found by another way than that of the mixture."""
    found = np.full(len(rows), -1)
    for number, parts in enumerate(RANGES):
        for first, last in parts:
            found[(first <= rows) & (rows < last)] = number
    assert (found >= 0).all()
    return found


def test_shares_are_in_proportion_to_weights_or_to_sizes_flattened_by_the_temperature():
    def shares(sizes, weights, temperature):
        corpora = [{"files": "a", "kept": size - 1, "joined": 1} for size in sizes]
        return make_mixture(corpora, weights, temperature, 1).shares

    assert shares([10, 20], [1, 3], None) == [0.25, 0.75]
    assert shares([10, 30], None, 1.0) == [0.25, 0.75]
    np.testing.assert_allclose(shares([16, 81], None, 4.0), [2 / 5, 3 / 5])
    assert shares([5, 7, 9], [0, 2, 0], None) == [0, 1, 0]


@pytest.mark.parametrize("whole", [1 << 20, 100])
@pytest.mark.parametrize("shares", [[0.2, 0.3, 0.5], [0.98, 0.015, 0.005], [0.5, 0.5, 0.0]])
def test_every_epoch_and_every_window_has_the_shares(monkeypatch, whole, shares):
    monkeypatch.setattr(mixture, "WHOLE_PAIRS", whole)
    monkeypatch.setattr(mixture, "SHUFFLE_BLOCK_PAIRS", 16)
    mixed = Mixture(RANGES, shares, seed=3)
    total = sum(size for size, share in zip(SIZES, shares, strict=True) if share)
    assert mixed.pairs == total == sum(mixed.counts)
    for epoch in (0, 1, 5):
        counted = np.bincount(corpus_of(mixed.rows(epoch)), minlength=3)
        assert counted.tolist() == mixed.counts
        assert np.abs(counted / total - shares).max() <= 1 / total
        for window in range(4):
            rows = mixed.rows(epoch, window, 4)
            assert np.abs(np.bincount(corpus_of(rows), minlength=3) / (total / 4) - shares).max() <= 4 / total
        parts = np.concatenate([mixed.rows(epoch, window, 4) for window in range(4)])
        assert sorted(parts) == sorted(mixed.rows(epoch))


@pytest.mark.parametrize("whole", [1 << 20, 100])
def test_over_epochs_every_pair_of_a_corpus_comes_equally_often_but_for_one_time(monkeypatch, whole):
    monkeypatch.setattr(mixture, "WHOLE_PAIRS", whole)
    monkeypatch.setattr(mixture, "SHUFFLE_BLOCK_PAIRS", 16)
    mixed = Mixture(RANGES, [0.2, 0.3, 0.5], seed=3)
    times = np.zeros(1050, int)
    for epoch in range(7):
        np.add.at(times, mixed.rows(epoch), 1)
        for number in range(3):
            own = times[corpus_of(np.arange(1050)) == number]
            assert own.max() - own.min() <= 1, (epoch, number)
    assert min(times) >= 1


def test_an_epoch_is_a_pure_function_of_seed_and_epoch():
    one, same, other = (Mixture(RANGES, [0.5, 0.3, 0.2], seed) for seed in (1, 1, 2))
    first = one.rows(4)
    one.rows(0)
    np.testing.assert_array_equal(one.rows(4), same.rows(4))
    np.testing.assert_array_equal(first, same.rows(4))
    assert first.tolist() != other.rows(4).tolist()
    assert first.tolist() != one.rows(3).tolist()


def test_a_pass_over_a_large_corpus_keeps_neighbours_together_and_a_small_one_does_not(monkeypatch):
    monkeypatch.setattr(mixture, "SHUFFLE_BLOCK_PAIRS", 16)
    small = Mixture([[(0, 1600)]], [1.0], seed=1).rows(0)
    monkeypatch.setattr(mixture, "WHOLE_PAIRS", 100)
    large = Mixture([[(0, 1600)]], [1.0], seed=1).rows(0)
    assert sorted(small) == sorted(large) == list(range(1600))
    assert (np.diff(large) == 1).mean() > 0.9 and (np.diff(small) == 1).mean() < 0.1


@pytest.mark.parametrize("window", [1 << 20, 300])
def test_batches_of_an_epoch_hold_the_rows_of_the_mixture(monkeypatch, window):
    monkeypatch.setattr(batch_plan, "WINDOW_PAIRS", window)
    random = np.random.default_rng(0)
    sides = [EncodedSentences.from_rows([[4] * n for n in random.integers(1, 20, 1050)]) for _ in range(2)]
    mixed = Mixture(RANGES, [0.2, 0.3, 0.5], seed=3)
    plans = [
        EpochPlan(EncodedPairs(*sides), partial(plan_batches, batch_tokens=200), seed=1, epoch=2, mixture=mixed)
        for _ in range(2)
    ]
    found = list(plans[0].batches())
    assert sorted(np.concatenate(found)) == sorted(mixed.rows(2))
    assert plans[0].count == len(found)
    again = list(plans[1].batches(len(found) // 2))
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in found[len(found) // 2 :]]
    for rows in found:
        assert (max(side.lengths_of(rows).max() for side in sides) + 1) * len(rows) <= 200

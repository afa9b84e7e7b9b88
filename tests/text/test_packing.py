"""Packed batches hold every pair once in rows of one length, with little padding, as a function of seed and epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import packing
from qkv.text.packing import LENGTH_MULTIPLE, choose_row_lengths, plan_packed_batches
from tests.support.text import LENGTHS


def captions(pairs=4000, seed=0):
    generator = np.random.default_rng(seed)
    source = generator.gamma(9, 1.6, pairs)
    target = source * generator.lognormal(0.05, 0.2, pairs)
    return [np.clip(side, 1, 55).astype(int) for side in (source, target)]


def long_tailed(pairs=8000, seed=0):
    generator = np.random.default_rng(seed)
    source = generator.lognormal(2.9, 0.8, pairs)
    target = 1.2 * source * generator.lognormal(0, 0.2, pairs)
    return [np.clip(side, 1, 500).astype(int) for side in (source, target)]


def choose(source, target, most=4096):
    lengths, rows = choose_row_lengths(source, target, longest=(int(source.max()), int(target.max())), most=most)
    planned = len(plan_packed_batches(source, target, seeds=(1, 0), shape=(1, *lengths)).batches)
    assert rows == pytest.approx(planned, rel=0.02, abs=1)
    return lengths


def same(one, other):
    return len(one.batches) == len(other.batches) and all(map(np.array_equal, one.batches, other.batches))


@given(pairs=LENGTHS, more=st.tuples(st.integers(0, 20), st.integers(0, 50)), rows=st.integers(1, 5))
def test_every_pair_is_once_in_a_row_that_holds_it(pairs, more, rows):
    source, target = np.array(pairs, int).reshape(-1, 2).T
    lengths = [side.max(initial=0) + 1 + extra for side, extra in zip((source, target), more, strict=True)]
    plan = plan_packed_batches(source, target, seeds=(3, 1), shape=(rows, *lengths))
    numbers = np.concatenate([batch[batch >= 0] for batch in plan.batches] or [[]])
    assert sorted(numbers.tolist()) == list(range(len(pairs)))
    sizes = [len(batch) for batch in plan.batches]
    assert max(sizes, default=0) <= rows and max(sizes, default=0) - min(sizes, default=0) <= 1
    for row in (row for batch in plan.batches for row in batch):
        used = row[row >= 0]
        assert len(used) and (row[: len(used)] >= 0).all()
        assert all((side[used] + 1).sum() <= length for side, length in zip((source, target), lengths, strict=True))
    assert plan.tokens == source.sum() + target.sum() + 2 * len(pairs)
    assert plan.positions == [rows * sum(lengths)] * len(sizes)


@pytest.mark.parametrize("corpus", [captions, long_tailed])
def test_rows_are_at_most_twice_as_long_as_the_longest_sentence_and_hardly_padded(corpus):
    source, target = corpus()
    lengths = choose(source, target)
    for length, side in zip(lengths, (source, target), strict=True):
        assert side.max() < length <= 2 * side.max() and length % LENGTH_MULTIPLE == 0
    plan = plan_packed_batches(*(np.roll(side, 5) for side in (source, target)), seeds=(1, 3), shape=(1, *lengths))
    assert plan.padding_share < 0.05


def test_row_lengths_are_in_the_ratio_of_the_tokens_unless_a_sentence_is_longer():
    lengths = np.full(3000, 15)
    assert choose(lengths, 2 * lengths + 1) == (16, 32)
    lengths[0] = 30
    assert choose(lengths, np.full(3000, 15)) == (32, 32)
    source, target = choose(*long_tailed())
    assert target / source == pytest.approx(1.2, abs=0.1)


def test_rows_are_not_longer_than_a_batch():
    """Pairs of 17 tokens fill rows of 24 badly, and rows of 88 well."""
    lengths = np.full(3000, 16)
    assert choose(lengths, lengths)[0] > 48
    assert max(choose(lengths, lengths, most=48)) <= 48
    assert choose(lengths, lengths, most=1) == (24, 24)


@pytest.mark.parametrize("target", [1, 7, 200])
def test_the_rows_of_the_sample_are_counted_if_no_lengths_suit_it(target):
    """A single pair leaves padding in rows of any length, and so do many if no row may hold two of them."""
    lengths = np.array([7, target])[:, None]
    for pairs, most in ((1, 4096), (50, 1)):
        (source_length, target_length), rows = choose_row_lengths(
            *np.repeat(lengths, pairs, axis=1), longest=(7, target), most=most
        )
        assert (source_length > 7) and (target_length > target) and rows * (source_length // 8) >= pairs >= rows > 0


def test_a_plan_depends_on_seed_and_epoch_alone():
    corpus = captions()
    plans = {seeds: plan_packed_batches(*corpus, seeds=seeds, shape=(8, 64, 64)) for seeds in ((1, 2), (2, 1), (1, 3))}
    assert same(plans[1, 2], plan_packed_batches(*corpus, seeds=(1, 2), shape=(8, 64, 64)))
    assert not same(plans[1, 2], plans[2, 1]) and not same(plans[1, 2], plans[1, 3])


def test_epochs_put_other_pairs_side_by_side():
    lengths = np.full(400, 7)
    plans = [plan_packed_batches(lengths, lengths, seeds=(1, epoch), shape=(5, 32, 32)).batches for epoch in (0, 1)]
    rows = [{frozenset(row.tolist()) for batch in batches for row in batch} for batches in plans]
    assert len(rows[0]) == 100 and len(rows[0] & rows[1]) < 3


def test_batches_do_not_come_in_order_of_length():
    """Neither whole batches nor the pairs that are left over to the last rows: each batch has short and long pairs."""
    source, target = captions(8000)
    batches = plan_packed_batches(source, target, seeds=(1, 0), shape=(16, 64, 64)).batches
    means = np.array([source[batch[batch >= 0]].mean() for batch in batches])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert means.std() < 0.3 * source.std()


def test_a_sample_chooses_the_share_by_which_all_rows_are_filled(monkeypatch):
    source, target = captions(20_000)
    whole = plan_packed_batches(source, target, seeds=(1, 0), shape=(1, 64, 64))
    monkeypatch.setattr(packing, "SAMPLE_PAIRS", 4000)
    sampled = plan_packed_batches(source, target, seeds=(1, 0), shape=(1, 64, 64))
    assert sampled.padding_share < whole.padding_share + 0.015

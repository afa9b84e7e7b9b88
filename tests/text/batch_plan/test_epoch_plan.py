"""Large corpora are planned a window at a time: every sentence once, the same batches from wherever one goes on."""

from functools import partial

import numpy as np
import pytest

from qkv.text import batch_plan
from qkv.text.batch_plan import EpochPlan, plan_batches
from qkv.text.corpora import mixture
from qkv.text.tokens.encoding import EncodedPairs
from tests.support.text import sentences_of

PAIRS = 203
PLAN = partial(plan_batches, batch_tokens=64)


@pytest.fixture(scope="module")
def pairs():
    source, target = np.random.default_rng(0).integers(1, 20, (2, PAIRS))
    return EncodedPairs(sentences_of(source), sentences_of(target))


@pytest.fixture
def small_windows(monkeypatch):
    monkeypatch.setattr(batch_plan, "WINDOW_PAIRS", 60)
    monkeypatch.setattr(mixture, "SHUFFLE_BLOCK_PAIRS", 10)


def plan(pairs, epoch=0, seed=7):
    return EpochPlan(pairs, PLAN, seed=seed, epoch=epoch)


def rows_of(batches):
    return [rows.tolist() for rows in batches]


def test_a_small_corpus_is_planned_as_a_whole(pairs):
    expected = plan_batches(*(side.lengths for side in pairs.sides), batch_tokens=64, seeds=(7, 3))
    found = plan(pairs, epoch=3)
    assert rows_of(found.batches()) == rows_of(expected.batches)
    assert found.count == len(expected.batches) and found.padding_share == expected.padding_share


def test_every_sentence_of_a_large_corpus_is_in_one_batch(pairs, small_windows):
    found = rows_of(plan(pairs).batches())
    assert sorted(row for rows in found for row in rows) == list(range(PAIRS))
    longest = [max(side.lengths[rows].max() for side in pairs.sides) + 1 for rows in found]
    assert all(len(rows) == 1 or len(rows) * length <= 64 for rows, length in zip(found, longest, strict=True))


def test_shards_come_in_another_order_in_each_epoch_and_with_each_seed(pairs, small_windows):
    orders = [rows_of(plan(pairs, epoch, seed).batches()) for epoch, seed in ((0, 7), (1, 7), (0, 8))]
    assert orders[0] == rows_of(plan(pairs).batches())
    first = [{row // 10 for rows in order[:5] for row in rows} for order in orders]
    assert first[0] != first[1] != first[2] != first[0]
    assert all(len({row // 10 for rows in order[:5] for row in rows}) <= 6 for order in orders)  # of one window


def test_an_epoch_goes_on_from_any_batch(pairs, small_windows):
    whole = rows_of(plan(pairs).batches())
    for first in range(len(whole) + 1):
        later = plan(pairs)
        assert later.count == len(whole)
        assert rows_of(later.batches(first)) == whole[first:]


def test_the_share_of_padding_is_that_of_all_windows(pairs, small_windows):
    found = plan(pairs)
    batches = list(found.batches())
    positions = sum(len(rows) * (side.lengths[rows].max() + 1) for rows in batches for side in pairs.sides)
    tokens = sum(int(side.lengths.sum()) + PAIRS for side in pairs.sides)
    assert found.padding_share == pytest.approx(1 - tokens / positions)


@pytest.mark.parametrize(("drawn", "windows"), [(60, 1), (61, 2), (150, 3)])
def test_a_mixture_is_planned_in_as_few_windows_as_hold_its_pairs(pairs, small_windows, drawn, windows):
    class Drawn:
        pairs = drawn

        def rows(self, epoch, number, count):
            assert count == windows
            return np.arange(drawn)[number::count]

    found = EpochPlan(pairs, PLAN, seed=7, epoch=0, mixture=Drawn())
    assert sorted(row for rows in found.batches() for row in rows) == list(range(drawn))

"""A batch plan holds every sentence once, in little padding, as a pure function of seed and epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.batch import make_batch
from qkv.text.batch_plan import _cut_into_batches, batches_by_length, plan_batches
from qkv.text.tokens.encoding import EncodedPairs
from qkv.text.tokens.special_tokens import PAD
from tests.support.text import LENGTHS, sentences_of


def plan(pairs, batch_tokens=64, length_multiple=1, seed=7, epoch=0):
    source, target = np.array(pairs, int).reshape(-1, 2).T
    sizes = {"batch_tokens": batch_tokens, "length_multiple": length_multiple}
    return plan_batches(source, target, seeds=(seed, epoch), **sizes)


def corpus(sentences=200, seed=0):
    return np.random.default_rng(seed).integers(1, 30, (sentences, 2))


def same(one, other):
    return len(one.batches) == len(other.batches) and all(map(np.array_equal, one.batches, other.batches))


@given(pairs=LENGTHS, batch_tokens=st.integers(1, 200), length_multiple=st.sampled_from([1, 4, 8]))
def test_every_sentence_is_in_exactly_one_batch(pairs, batch_tokens, length_multiple):
    found = plan(pairs, batch_tokens, length_multiple).batches
    assert sorted(row for batch in found for row in batch) == list(range(len(pairs)))
    assert all(len(batch) for batch in found)


@given(pairs=LENGTHS, batch_tokens=st.integers(1, 200), length_multiple=st.sampled_from([1, 4, 8]))
def test_no_side_of_a_batch_has_more_positions_than_allowed_unless_it_is_a_single_sentence(
    pairs, batch_tokens, length_multiple
):
    source, target = (sentences_of(side) for side in zip(*pairs, strict=True)) if pairs else (None, None)
    for rows in plan(pairs, batch_tokens, length_multiple).batches:
        batch = make_batch(EncodedPairs(source, target), rows, length_multiple)
        assert len(rows) == 1 or max(array.size for array in batch.ids) <= batch_tokens


@given(widths=st.lists(st.integers(1, 30), max_size=50), batch_tokens=st.integers(1, 200))
def test_sentences_are_cut_into_batches_as_one_by_one(widths, batch_tokens):
    batches = []
    for width in widths:
        if batches and (len(batches[-1]) + 1) * max(*batches[-1], width) <= batch_tokens:
            batches[-1].append(width)
        else:
            batches.append([width])
    lengths = np.array(widths, int)
    found = _cut_into_batches(np.arange(len(widths)), lengths, batch_tokens)
    assert [lengths[rows].tolist() for rows in found] == batches


@given(pairs=LENGTHS.filter(bool), length_multiple=st.sampled_from([1, 4]))
def test_the_padding_share_is_that_of_the_arrays(pairs, length_multiple):
    source, target = (sentences_of(side) for side in zip(*pairs, strict=True))
    found = plan(pairs, length_multiple=length_multiple)
    batches = [make_batch(EncodedPairs(source, target), rows, length_multiple) for rows in found.batches]
    positions = sum(batch.source.size + batch.target_output.size for batch in batches)
    padding = sum((batch.source == PAD).sum() + (batch.target_output == PAD).sum() for batch in batches)
    assert found.padding_share == pytest.approx(padding / positions)


def test_no_sentences_are_no_batches_and_no_padding():
    found = plan([])
    assert found.batches == []
    assert found.padding_share == 0


def test_a_plan_depends_on_seed_and_epoch_alone():
    pairs = corpus()
    first = plan(pairs)
    assert same(first, plan(pairs))
    assert not same(first, plan(pairs, epoch=1))
    assert not same(first, plan(pairs, seed=8))
    assert not same(plan(pairs, seed=1, epoch=2), plan(pairs, seed=2, epoch=1))


def test_epochs_mix_sentences_of_equal_lengths_anew():
    pairs = [(5, 5)] * 60
    sets = [{frozenset(batch.tolist()) for batch in plan(pairs, epoch=epoch).batches} for epoch in (0, 1)]
    assert not sets[0] & sets[1]


def test_batches_do_not_come_in_order_of_length():
    pairs = corpus(400)
    lengths = [pairs[rows, 1].mean() for rows in plan(pairs).batches]
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.4


def test_similar_lengths_stand_together_so_that_little_is_padding():
    pairs = corpus(3000)
    assert plan(pairs, batch_tokens=512).padding_share < 0.15
    everything = 1 - (pairs.sum() + 2 * len(pairs)) / (len(pairs) * (pairs.max(0) + 1).sum())
    assert everything > 0.4  # what a batch of all of them would have


def test_batches_are_as_full_as_they_may_be():
    found = plan([(7, 7)] * 100, batch_tokens=64)
    assert sorted(len(batch) for batch in found.batches) == [4] + [8] * 12


def test_a_long_sentence_makes_no_batch_small_but_its_own():
    found = plan([(29, 1)] + [(3, 3)] * 16, batch_tokens=64)
    assert sorted(len(batch) for batch in found.batches) == [2, 15]


@given(pairs=LENGTHS, batch_tokens=st.integers(1, 200))
def test_batches_by_length_hold_every_sentence_once_and_no_more_positions_than_allowed(pairs, batch_tokens):
    lengths = np.array(pairs, int).reshape(-1, 2) + 1
    found = batches_by_length(*lengths.T, batch_tokens)
    assert sorted(row for rows in found for row in rows) == list(range(len(pairs)))
    assert all(len(rows) == 1 or len(rows) * lengths[rows].max() <= batch_tokens for rows in found)
    widest = [lengths[rows].max() for rows in found]
    assert widest == sorted(widest)


def test_batches_by_length_of_few_sentences_have_less_padding_than_a_plan():
    generator = np.random.default_rng(1)
    source = generator.normal(15, 5, 256)  # as captions and their translations are
    lengths = np.stack([source, source + generator.normal(0, 2.5, 256)], axis=1).clip(2).astype(int)
    positions = sum(len(rows) * lengths[rows].max(0).sum() for rows in batches_by_length(*lengths.T, 512))
    assert 1 - lengths.sum() / positions < 0.9 * plan(lengths - 1, batch_tokens=512).padding_share


def test_batches_by_length_put_pairs_of_equal_longer_sides_in_order_of_their_sum():
    source, target = np.array([6, 2, 1, 6]), np.array([3, 6, 6, 2])
    assert [sorted(rows) for rows in batches_by_length(source, target, 12)] == [[1, 2], [0, 3]]

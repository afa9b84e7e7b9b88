"""Batches of few shapes: every sentence once, no batch too large, and the padding as it is said."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.batch import Batch, pad_batch
from qkv.text.batch_plan import coarse_lengths, plan_batches, sentences_of
from qkv.text.tokens.special_tokens import PAD

LENGTHS = coarse_lengths(64)


@pytest.mark.parametrize("most", [1, 5, 8, 9, 40, 128, 512])
def test_lengths_rise_by_about_an_eighth_to_the_longest(most):
    lengths = coarse_lengths(most)
    assert lengths[-1] == most and lengths[0] == min(8, most)
    assert all(one < other <= max(1.16 * one, one + 1) for one, other in pairwise(lengths))


def test_there_are_some_twenty_lengths():
    assert [len(coarse_lengths(most)) for most in (64, 100, 128)] == [20, 24, 26]


@given(pairs=st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), max_size=80), tokens=st.integers(1, 300))
def test_every_sentence_is_in_one_batch_of_its_length_and_padding_is_counted(pairs, tokens):
    source, target = np.array(pairs, int).reshape(-1, 2).T
    plan = plan_batches(source, target, lengths=LENGTHS, batch_tokens=tokens, seeds=(3, 1))
    assert sorted(np.concatenate([*plan.batches, []]).tolist()) == list(range(len(pairs)))
    positions, shapes = 0, set()
    for rows in plan.batches:
        arrays = [np.zeros((len(rows), side[rows].max() + 1), np.int32) for side in (source, target, target)]
        batch = pad_batch(Batch(*arrays), LENGTHS, tokens)
        assert len({array.shape for array in batch.ids}) == 1
        assert batch.source.size <= max(tokens, batch.source.shape[1])
        positions += batch.source.size + batch.target_output.size
        shapes.add(batch.source.shape)
    assert plan.positions == positions
    assert plan.tokens == source.sum() + target.sum() + 2 * len(pairs)
    assert len(shapes) <= len(LENGTHS)


def test_an_epochs_batches_are_a_function_of_seed_and_epoch():
    generator = np.random.default_rng(0)
    sides = generator.integers(0, 60, (2, 400))

    def plan(*seeds):
        settings = {"lengths": LENGTHS, "batch_tokens": 200}
        return [rows.tolist() for rows in plan_batches(*sides, **settings, seeds=seeds).batches]

    assert plan(1, 0) == plan(1, 0)
    assert all(plan(1, 0) != plan(*seeds) for seeds in ((2, 0), (1, 1), (1, 0, 1)))


def test_a_batch_is_padded_to_the_shape_of_its_length_links_too():
    ids = np.ones((3, 7), np.int32), np.ones((3, 11), np.int32), np.ones((3, 11), np.int32)
    batch = pad_batch(Batch(*ids, np.ones((3, 11, 7), bool)), LENGTHS, 61)
    assert [array.shape for array in batch.ids] == [(sentences_of(61, 11), 11)] * 3 == [(5, 11)] * 3
    assert batch.links.shape == (5, 11, 11) and batch.links.sum() == 3 * 11 * 7
    assert (batch.source[:3, :7] == 1).all() and batch.source.sum() == 21 and PAD == 0
    assert pad_batch(Batch(*ids), LENGTHS, 61, replicas=2).source.shape == (3, 11)

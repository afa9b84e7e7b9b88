"""A batch holds its sentences in padded arrays, each target token beside the one that it predicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.batch import make_batch, pad
from qkv.text.tokens.encoding import EncodedPairs
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.text import LENGTHS, sentences_of


def test_a_batch_has_the_sentences_with_bos_and_eos_in_their_places():
    source, target = sentences_of([2, 0, 3]), sentences_of([1, 4, 0])
    batch = make_batch(EncodedPairs(source, target), np.array([2, 0]))
    (a, b, c), (d, e), (f,) = source[2], source[0], target[0]
    np.testing.assert_array_equal(batch.source, [[a, b, c, EOS], [d, e, EOS, PAD]])
    np.testing.assert_array_equal(batch.target_input, [[BOS, PAD], [BOS, f]])
    np.testing.assert_array_equal(batch.target_output, [[EOS, PAD], [f, EOS]])
    assert {array.dtype for array in batch.ids} == {np.dtype("int32")}


@given(pairs=LENGTHS.filter(bool), length_multiple=st.sampled_from([1, 4]))
def test_a_batch_holds_its_sentences_as_lists_of_them_would(pairs, length_multiple):
    source, target = (sentences_of(side, seed) for seed, side in enumerate(zip(*pairs, strict=True)))
    rows = np.random.default_rng(0).permutation(len(pairs))
    batch = make_batch(EncodedPairs(source, target), rows, length_multiple)
    for found, expected in (
        (batch.source, [[*source[row], EOS] for row in rows]),
        (batch.target_input, [[BOS, *target[row]] for row in rows]),
        (batch.target_output, [[*target[row], EOS] for row in rows]),
    ):
        np.testing.assert_array_equal(found, pad(expected, found.shape[1]))


def test_padded_lengths_are_multiples_just_large_enough():
    source, target = sentences_of([7, 3]), sentences_of([8, 1])
    batch = make_batch(EncodedPairs(source, target), np.array([0, 1]), length_multiple=8)
    assert [array.shape for array in batch.ids] == [(2, 8), (2, 16), (2, 16)]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_shards_divide_a_batch_at_the_same_padded_lengths(shards):
    """Three sentences over five workers leave two of them none."""
    source, target = sentences_of([2, 9, 4]), sentences_of([6, 1, 3])
    rows = np.array([1, 2, 0])
    whole = make_batch(EncodedPairs(source, target), rows)
    parts = [
        make_batch(EncodedPairs(source, target), rows, replica=replica, replicas=shards) for replica in range(shards)
    ]
    for full, pieces in zip(whole.ids, zip(*(part.ids for part in parts), strict=True), strict=True):
        assert {piece.shape[1] for piece in pieces} == {full.shape[1]}
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
        joined = np.concatenate(pieces)
        assert sorted(map(tuple, joined)) == sorted(map(tuple, full))


def test_padding_fills_up_on_the_right():
    np.testing.assert_array_equal(pad([[5], [], [6, 7]], 3), [[5, 0, 0], [0, 0, 0], [6, 7, 0]])
    assert pad([], 3).shape == (0, 3)

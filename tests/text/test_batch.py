"""A batch holds its sentences in padded arrays, each target token beside the one that it predicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.batch import make_batch, make_packed_batch, pad
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.packing import pack
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


@st.composite
def linked_pairs(draw):
    """Pairs of tokens without BOS and EOS, and links between tokens, EOS among them."""
    tokens = st.lists(st.integers(4, 30), max_size=5)
    pairs = draw(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=9))
    links = [draw(st.lists(st.tuples(st.integers(0, len(s)), st.integers(0, len(t))), max_size=3)) for s, t in pairs]
    return pairs, links


@given(drawn=linked_pairs(), sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4), is_linked=st.booleans())
def test_a_packed_batch_holds_its_pairs_as_loops_over_their_tokens_would(drawn, sizes, is_linked):
    pairs, links = drawn
    numbers = iter(np.random.default_rng(0).permutation(len(pairs)).tolist())
    rows = [[number for _, number in zip(range(size), numbers, strict=False)] for size in sizes]
    source, target = (EncodedSentences.from_rows(side) for side in zip(*pairs, strict=True))
    encoded_links = EncodedSentences.from_rows([np.ravel(one).astype(int) for one in links]) if is_linked else None
    filled = pad([[number + 1 for number in row] for row in rows], 3) - 1
    found = make_packed_batch(EncodedPairs(source, target, encoded_links), filled, (len(rows) + 2, 20, 19))
    expected = pack([*rows, [], []], (20, 19), is_linked, pairs, links)
    np.testing.assert_equal(tuple(found), tuple(expected))
    assert {array.dtype.name for array in found.arrays} == {"int32"} | ({"bool"} if is_linked else set())


def test_replicas_divide_the_rows_of_a_packed_batch():
    source, target = sentences_of([2, 9, 4, 3]), sentences_of([6, 1, 3, 5])
    pairs, rows = EncodedPairs(source, target), np.array([[1, 0], [2, -1], [3, -1]])
    whole = make_packed_batch(pairs, rows, (3, 13, 9))
    shares = [make_packed_batch(pairs, rows, (2, 13, 9), replica, 2) for replica in range(2)]
    for full, first, second in zip(whole.arrays, *(share.arrays for share in shares), strict=True):
        np.testing.assert_array_equal(full, [first[0], second[0], first[1]])
        assert first.shape == second.shape and not second[1].any()


def test_padding_fills_up_on_the_right():
    np.testing.assert_array_equal(pad([[5], [], [6, 7]], 3), [[5, 0, 0], [0, 0, 0], [6, 7, 0]])
    assert pad([], 3).shape == (0, 3)

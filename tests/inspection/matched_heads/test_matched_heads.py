"""Heads of two models are matched by what they attend to."""

import numpy as np

from qkv.inspection.matched_heads import match_heads
from tests.support.records import build_record


def test_heads_that_were_exchanged_are_found_again():
    orders = np.array([[2, 0, 1], [1, 2, 0]])  # the head of the second model that is each head of the first
    pairs = []
    for number in range(4):
        first, second = build_record(number), build_record(number)
        for layer, order in enumerate(orders):
            second.attention["cross"][layer, order] = first.attention["cross"][layer]
        pairs.append((first, second))
    pairs.append((build_record(5), build_record(5, target_words=(0, 1, None))))
    found = match_heads(pairs)
    np.testing.assert_array_equal(found.heads, orders)
    assert found.sentences == 4 and abs(found.overlap - 1) < 1e-6


def test_other_targets_or_other_numbers_of_heads_are_not_matched():
    assert match_heads([(build_record(0), build_record(0, target_words=(0, None)))]) is None
    assert match_heads([(build_record(0), build_record(0, heads=2))]) is None


def test_sentences_with_an_empty_side_count_nothing():
    pairs = [(build_record(number), build_record(number, seed=9)) for number in range(3)]
    empty = build_record(7, (None,)), build_record(7, (None,), seed=9)
    found, expected = match_heads([pairs[0], empty, *pairs[1:]]), match_heads(pairs)
    assert (found.sentences, found.overlap) == (3, expected.overlap)

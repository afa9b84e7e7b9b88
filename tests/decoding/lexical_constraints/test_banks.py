"""A beam divided among banks: against sorting by hand."""

import numpy as np
import pytest

from qkv.decoding.lexical_constraints import order_by_banks
from qkv.decoding.search import top_k_of_many

BANKS, COUNT = 4, 10


def by_hand(totals, indices, then, longest):
    first = {}
    for total, index, needed in zip(totals, indices, then, strict=True):
        first.setdefault(index, (total, needed))
    banks = {}
    for index in sorted(first, key=lambda index: (-first[index][0], index)):
        bank = -(-first[index][1] * (BANKS - 1) // max(longest, 1))
        banks.setdefault(min(max(bank, 0), BANKS - 1), []).append(index)
    rounds = [banks[bank][place] for place in range(len(totals)) for bank in sorted(banks) if place < len(banks[bank])]
    return rounds[:COUNT]


@pytest.mark.parametrize("seed", range(5))
def test_the_likeliest_of_each_bank_come_in_turns_and_what_is_repeated_counts_once(seed):
    random = np.random.default_rng(seed)
    totals = random.choice(20, size=(6, 30)).astype("float32")  # with ties
    indices = random.choice(40, size=(6, 30)).astype("int32")
    then, longest = random.integers(0, 7, (6, 30)).astype("int32"), np.array([6, 6, 3, 1, 7, 100], "int32")
    ordered_totals, ordered = (np.asarray(x) for x in order_by_banks(totals, indices, then, longest, COUNT, BANKS))
    for row in range(6):
        expected = by_hand(totals[row], indices[row], then[row], longest[row])
        assert ordered[row].tolist() == expected
        assert ordered_totals[row].tolist() == [totals[row][indices[row].tolist().index(index)] for index in expected]


def test_one_bank_is_the_order_of_a_beam_without_phrases():
    totals = np.random.default_rng(1).choice(9, size=(3, 40)).astype("float32")
    totals[:, 25:] = -np.inf
    indices = np.broadcast_to(np.arange(40, dtype="int32"), (3, 40))
    nothing = np.zeros((3, 40), "int32")
    ordered = order_by_banks(totals[:, ::-1], indices[:, ::-1], nothing, nothing[:, 0], COUNT, BANKS)
    for values, expected_values in zip(ordered, top_k_of_many(totals[:, None], COUNT), strict=True):
        np.testing.assert_array_equal(values, expected_values)

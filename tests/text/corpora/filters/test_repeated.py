"""Repeated numbers are the same whatever the parts in which they are looked for."""

import numpy as np
import pytest

from qkv.text.corpora import filters
from qkv.text.corpora.filters import find_repeated


@pytest.mark.parametrize("part", [1 << 20, 100, 3])
def test_later_equals_are_found_and_first_ones_are_not(monkeypatch, part):
    monkeypatch.setattr(filters, "PART_NUMBERS", part)
    random = np.random.default_rng(0)
    numbers = random.integers(0, 1 << 64, 300, dtype=np.uint64)[random.integers(300, size=700)]
    for among in (None, random.random(700) < 0.7):
        seen, expected = set(), []
        for number, counts in zip(numbers.tolist(), [True] * 700 if among is None else among, strict=True):
            expected.append(bool(counts) and number in seen)
            seen |= {number} if counts else set()
        assert find_repeated(numbers, among).tolist() == expected
    assert find_repeated(numbers[:0]).tolist() == []

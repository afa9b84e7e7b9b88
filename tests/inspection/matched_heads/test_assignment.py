"""The best assignment: against all of them."""

from itertools import permutations

import numpy as np
import pytest

from qkv.inspection.matched_heads import best_assignment


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6])
def test_no_other_assignment_gains_more(size):
    generator = np.random.default_rng(size)
    for trial in range(20):
        gain = generator.normal(size=(size, size)) if trial % 2 else generator.integers(0, 3, size=(size, size))
        found = best_assignment(gain)
        assert sorted(found.tolist()) == list(range(size))
        rows = np.arange(size)
        best = max(gain[rows, list(order)].sum() for order in permutations(range(size)))
        assert gain[rows, found].sum() == pytest.approx(best)

"""Components are those that walking from pair to pair finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.corpora.held_out import find_components
from tests.support.oracles import walk


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=25))
def test_components_are_those_that_a_walk_finds(pairs):
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    found = find_components(np.array(sources, np.int64), np.array(targets, np.int64))
    assert found.tolist() == walk(sources, targets)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_chain_is_one_component(seed):
    order = np.random.default_rng(seed).permutation(20_000)
    assert not find_components((order + 1) // 2, order // 2).any()

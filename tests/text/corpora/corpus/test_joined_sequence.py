"""Joined sequences are read as one list."""

import pytest

from qkv.text.corpora.corpus import JoinedSequence

PARTS = [["a", "b"], [], ["c"], ["d", "e", "f"], []]
WHOLE = ["a", "b", "c", "d", "e", "f"]


def test_items_and_slices_are_those_of_one_list():
    joined = JoinedSequence(PARTS)
    assert len(joined) == 6 and list(joined) == WHOLE
    assert [joined[i] for i in range(-6, 6)] == [WHOLE[i] for i in range(-6, 6)]
    for first in range(-7, 8):
        for last in range(-7, 8):
            for step in (1, 2, -1):
                assert joined[first:last:step] == WHOLE[first:last:step]
    with pytest.raises(IndexError):
        joined[6]

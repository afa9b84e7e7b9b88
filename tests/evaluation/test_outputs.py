"""Which sentences of an evaluation are drawn."""

import pytest

from qkv.evaluation.outputs import drawn_sentences


@pytest.mark.parametrize(
    ("given", "of_sets", "own", "drawn"),
    [(None, 0, False, 0), (None, 1, False, 1), (None, 0, True, 3), (0, 0, True, 0), (7, 7, True, 7), (7, 7, False, 7)],
)
def test_a_few_sentences_of_text_of_ones_own_are_drawn_unless_the_config_says_how_many(given, of_sets, own, drawn):
    assert drawn_sentences(given, of_sets, own=own) == drawn

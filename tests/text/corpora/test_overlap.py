"""Sentences that other sets share with the training text are counted, in whatever parts it is read."""

import pytest

from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.overlap import SharedSentences, report_overlap


@pytest.mark.parametrize("parts", [[slice(None)], [slice(1), slice(1, None)]])
def test_overlap_counts_pairs_and_sides_and_names_lines(parts):
    training = ["a", "b", "c"], ["A", "B", "x"]
    other = Corpus(["a", "a", "x", "y"], ["A", "x", "B", "y"], [2, 4, 6, 8], "made.tsv")
    whole, shared = SharedSentences.of(other), SharedSentences(set(), set(), set())
    for part in parts:
        shared.update(whole.shared_with(*(side[part] for side in training)))
    assert report_overlap(shared, other, "test") == {"pairs": 1, "sources": 2, "targets": 3, "of": 4, "lines": [2, 4]}

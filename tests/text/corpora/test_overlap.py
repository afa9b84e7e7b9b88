"""Sentences that other sets share with the training text are counted, in whatever parts it is read."""

import pytest

from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.overlap import SharedSentenceFinder, SharedSentences, count_overlap


@pytest.mark.parametrize("parts", [[slice(None)], [slice(1), slice(1, None)]])
def test_overlap_counts_pairs_and_sides_and_names_lines(parts):
    training = ["a", "b", "c"], ["A", "B", "x"]
    other = Corpus(["a", "a", "x", "y"], ["A", "x", "B", "y"], [2, 4, 6, 8], "made.tsv")
    finder, shared = SharedSentenceFinder(other.source, other.target), SharedSentences()
    for part in parts:
        shared.update(finder.find(*(side[part] for side in training)))
    result = count_overlap(shared, other)
    assert (result.pairs, result.sources, result.targets, result.lines) == (1, 2, 3, [2, 4])

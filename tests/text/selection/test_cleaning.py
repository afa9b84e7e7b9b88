"""Odd pairs are found once, with their reason."""

import numpy as np

from qkv.config.choices.text import CORPUS_PROBLEMS
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.filters import digest_pairs, find_repeated
from qkv.text.selection import Findings, find_odd_pairs
from qkv.text.shards import find_empty


def corpus_of(*pairs, lines=None):
    sources, targets = [list(side) for side in zip(*pairs, strict=True)]
    return Corpus(sources, targets, lines or list(range(1, len(pairs) + 1)), "made.tsv")


def findings(corpus, **limits):
    lengths = [np.array([len(text.split()) for text in side]) for side in (corpus.source, corpus.target)]
    defaults = {"longest": (50, 50), "max_length_ratio": 3.0}
    sides = corpus.source, corpus.target
    repeated = find_repeated(digest_pairs(*sides))
    return Findings(
        tuple(CORPUS_PROBLEMS), find_odd_pairs(find_empty(*sides), repeated, lengths, **(defaults | limits))
    )


def found(corpus, **limits):
    odd = findings(corpus, **limits)
    return sorted((row, name) for name in odd.names for row in odd.first_rows(name, 100))


def test_each_odd_pair_is_listed_once_with_the_first_reason_that_applies():
    long = "w " * 60
    corpus = corpus_of(("a", "b"), ("", "b"), (long, "b"), ("w " * 12, "b"), ("a", "b"), ("", "b"), ("a", "\u2003"))
    assert found(corpus) == [
        (1, "empty_side"),
        (2, "over_long"),
        (3, "length_ratio"),
        (4, "duplicate"),
        (5, "empty_side"),
        (6, "empty_side"),
    ]


def test_length_limits_are_inclusive_and_each_side_has_its_own():
    corpus = corpus_of(("w " * 12, "w " * 4))
    assert found(corpus, longest=(12, 4), max_length_ratio=3.0) == []
    assert found(corpus, longest=(11, 50)) == [(0, "over_long")]
    assert found(corpus, longest=(50, 3)) == [(0, "over_long")]
    assert found(corpus, max_length_ratio=2.9) == [(0, "length_ratio")]
    assert found(corpus, max_length_ratio=None) == []


def test_the_ratio_of_short_sentences_is_not_judged():
    assert found(corpus_of(("w " * 10, "w"))) == []
    assert found(corpus_of(("w", "w " * 11))) == [(0, "length_ratio")]


def test_the_same_source_with_another_target_is_no_duplicate():
    assert found(corpus_of(("a", "b"), ("a", "c"), ("b", "a"))) == []


def test_odd_pairs_are_counted_by_their_reason_in_any_part_of_a_corpus():
    corpus = corpus_of(("a", "b"), ("", "b"), ("a", "b"), ("c", "d"))
    assert findings(corpus).count() == dict.fromkeys(CORPUS_PROBLEMS, 0) | {"empty_side": 1, "duplicate": 1}
    assert findings(corpus).count(2, 3) == dict.fromkeys(CORPUS_PROBLEMS, 0) | {"duplicate": 1}

"""Several corpora are read as one, and each pair still knows its file."""

import numpy as np

from qkv.text.corpora.corpus import Corpus, join_corpora


def corpus(name, count, first=1):
    return Corpus(
        [f"{name}{i}" for i in range(count)],
        [f"{name.upper()}{i}" for i in range(count)],
        range(first, first + count),
        name,
    )


def test_one_corpus_stays_as_it_is():
    one = corpus("a", 2)
    assert join_corpora([one]) is one


def test_pairs_are_chosen_and_placed_by_their_own_files():
    joined = join_corpora([corpus("a", 3), corpus("b", 2, 5), corpus("c", 4)])
    assert len(joined) == 9 and joined.ends == [3, 5, 9]
    chosen = joined.select(np.array([0, 2, 4, 8]))
    assert list(chosen.pairs()) == [("a0", "A0"), ("a2", "A2"), ("b1", "B1"), ("c3", "C3")]
    assert (
        [chosen.location(i) for i in range(4)]
        == ["a:1", "a:3", "b:6", "c:4"]
        == [chosen.shown_line(i) for i in range(4)]
    )
    assert chosen.ends == [2, 3, 4]
    assert joined.select(np.array([5])).ends == [0, 0, 1]
    assert list(chosen.in_memory().source) == ["a0", "a2", "b1", "c3"]
    assert corpus("a", 2).shown_line(1) == 2

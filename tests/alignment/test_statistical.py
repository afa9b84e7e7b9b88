"""Word links from text alone: the HMM against sums over all alignments, EM's likelihood, and links that are known."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from qkv.alignment import statistical
from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.statistical import (
    Direction,
    ParallelWords,
    StatisticalAligner,
    forward_backward,
    position_probabilities,
)
from qkv.text.corpora.word_links import read_pharaoh
from tests.support import ROOT


def all_alignments(lexical, null, transitions):
    """Sums over all alignments of one sentence pair, one by one. Arguments without the axis of pairs."""
    n_drawn, n_given = lexical.shape
    links, nulls, jumps = np.zeros_like(lexical), np.zeros(n_drawn), np.zeros_like(transitions)
    total = 0.0
    for alignment in itertools.product([None, *range(n_given)], repeat=n_drawn):
        probability, last, steps = 1.0, 0, []  # row 0 of the transitions is of the position before the first word
        for j, i in enumerate(alignment):
            if i is None:
                probability *= null[j]
            else:
                probability *= transitions[last, i] * lexical[j, i]
                steps.append((last, i))
                last = i + 1
        total += probability
        for j, i in enumerate(alignment):
            if i is None:
                nulls[j] += probability
            else:
                links[j, i] += probability
        for step in steps:
            jumps[step] += probability
    return links / total, nulls / total, jumps / total, math.log(total)


@pytest.mark.parametrize(("n_drawn", "n_given"), [(4, 3), (3, 4), (1, 3), (4, 1), (1, 1)])
def test_the_hmm_sums_over_all_alignments(n_drawn, n_given):
    generator = np.random.default_rng(1)
    n_pairs = 3
    lexical = generator.uniform(0.01, 1, (n_drawn, n_pairs, n_given)).astype(np.float32)
    null = generator.uniform(0.01, 0.3, (n_drawn, n_pairs)).astype(np.float32)
    transitions = generator.dirichlet(np.ones(n_given), n_given + 1).astype(np.float32)
    counts = np.array([1, 2, 5], np.float32)
    links, nulls, jumps, likelihoods = forward_backward(lexical, null, transitions, counts)
    expected = [all_alignments(lexical[:, pair], null[:, pair], transitions) for pair in range(n_pairs)]
    for pair, of_pair in enumerate(expected):
        np.testing.assert_allclose(links[:, pair], of_pair[0], rtol=1e-5)
        np.testing.assert_allclose(nulls[:, pair], of_pair[1], rtol=1e-5)
        assert likelihoods[pair] == pytest.approx(of_pair[3], rel=1e-5)
    np.testing.assert_allclose(jumps, sum(n * pair[2] for n, pair in zip(counts, expected, strict=True)), rtol=1e-5)


def random_text(pairs, seed=0, words=12):
    """Sentences of random words and their translations: word N is `tN`, in another order, some left out or added."""
    generator = np.random.default_rng(seed)
    sources, targets = [], []
    for _ in range(pairs):
        source = generator.integers(words, size=generator.integers(1, 8))
        target = [f"t{word}" for word in source if generator.random() < 0.9] + ["of"] * generator.integers(0, 2)
        if generator.random() < 0.3:
            target = target[::-1]
        sources.append([f"s{word}" for word in source])
        targets.append(target or ["of"])
    return sources, targets


def frequencies(text, side):
    sums = np.zeros(len(text.vocabularies[side]))
    for block in text.blocks:
        np.add.at(sums, (block.source, block.target)[side], block.counts)
    return sums


@pytest.mark.parametrize("has_jumps", [False, True], ids=["model 1", "HMM"])
def test_em_raises_the_likelihood_of_a_direction_at_each_update(has_jumps, monkeypatch):
    """Each direction alone, without counts to start from."""
    monkeypatch.setattr(statistical, "UNIFORM_JUMPS", 0.0)
    text = ParallelWords(*random_text(60))
    lexicon = text.lexicon
    direction = Direction(lexicon.source, np.full(len(lexicon.start), 1e-9), frequencies(text, side=1))
    likelihoods = []
    for _ in range(8):
        counts = np.zeros(len(lexicon.start))
        for block in text.blocks:
            links = direction.expect(block.entries, block.target, block.counts, has_jumps)
            np.add.at(counts, block.entries, links * block.counts[:, None])
        likelihoods.append(direction.log_likelihood)
        direction.update(counts)
    assert np.diff(likelihoods).min() > -1e-3 and likelihoods[-1] > likelihoods[0] + 10


def test_probabilities_of_a_word_sum_to_one():
    aligner = StatisticalAligner(ParallelWords(*random_text(60)))
    aligner.train()
    lexicon = aligner.text.lexicon
    for direction, given in ((aligner.forward, lexicon.source), (aligner.backward, lexicon.target)):
        np.testing.assert_allclose(np.bincount(given, direction.translation), 1)
        np.testing.assert_allclose(position_probabilities(direction.jumps, 3).sum(axis=1), 1, rtol=1e-6)
        assert direction.null.sum() == pytest.approx(1)
    for forward, backward in aligner.probabilities():
        assert (forward.sum(axis=-1) <= 1 + 1e-5).all() and (backward.sum(axis=0) <= 1 + 1e-5).all()


def test_jumps_are_learnt_in_their_direction():
    """Forwards for words in the same order, backwards for words in reverse order."""
    generator = np.random.default_rng(2)
    lines = [generator.integers(30, size=6).tolist() for _ in range(200)]
    for sign in (1, -1):
        sides = (
            [[f"s{word}" for word in line] for line in lines],
            [[f"t{word}" for word in line[::sign]] for line in lines],
        )
        aligner = StatisticalAligner(ParallelWords(*sides))
        aligner.train()
        for direction in (aligner.forward, aligner.backward):
            assert direction.jumps.argmax() - statistical.LONGEST_JUMP == sign


OBVIOUS = [
    ("the cat", "le chat"),
    ("the dog", "le chien"),
    ("a cat", "un chat"),
    ("a dog", "un chien"),
    ("the black cat", "le chat noir"),
    ("a black dog", "un chien noir"),
    ("the cat sleeps", "le chat dort"),
    ("a dog sleeps", "un chien dort"),
    ("the black dog sleeps", "le chien noir dort"),
]


def links_of(pairs):
    aligner = StatisticalAligner(ParallelWords(*([line.split() for line in side] for side in zip(*pairs, strict=True))))
    aligner.train()
    return list(aligner.links())


def test_links_that_follow_from_the_text_are_found():
    links = links_of(OBVIOUS * 3)
    assert set(links[8]) == {(0, 0), (1, 2), (2, 1), (3, 3)}  # source, target: the adjective stands after the noun
    assert set(links[5]) == {(0, 0), (1, 2), (2, 1)}


def test_the_links_do_not_depend_on_the_order_of_the_pairs():
    sources, targets = random_text(200, seed=3)
    pairs = [(" ".join(source), " ".join(target)) for source, target in zip(sources, targets, strict=True)]
    order = np.random.default_rng(5).permutation(len(pairs))
    links = links_of(pairs)
    assert links_of([pairs[row] for row in order]) == [links[row] for row in order]


def test_blocks_change_no_link(monkeypatch):
    sources, targets = random_text(100, seed=4)
    pairs = [(" ".join(source), " ".join(target)) for source, target in zip(sources, targets, strict=True)]
    whole = links_of(pairs)
    monkeypatch.setattr(statistical, "BLOCK_CELLS", 30)
    assert links_of(pairs) == whole


def test_pairs_that_cannot_be_linked_have_no_links():
    long = " ".join(["the"] * (statistical.LONGEST_SENTENCE + 1))
    links = links_of([("", "le chat"), *OBVIOUS, ("the", ""), (long, "le"), ("", "")])
    assert [links[0], *links[-3:]] == [[], [], [], []]
    assert links[1:-3] == links_of(OBVIOUS)


def test_case_and_punctuation_around_words_make_no_other_words():
    text = ParallelWords([["The", "the,", "«the»", "...", "d'", "o'clock"]], [["x"]])
    assert list(map(len, text.vocabularies)) == [4, 1]  # the, ..., d, o'clock


def test_words_with_the_same_beginning_are_linked_at_their_first_sight():
    pairs = [*OBVIOUS, ("the zambia cat europe", "le chat europe zambie")]
    assert set(links_of(pairs)[-1]) == {(0, 0), (1, 3), (2, 1), (3, 2)}


def test_the_memory_grows_with_the_pairs_of_words_alone(monkeypatch):
    """4 bytes for each, and, since sentences here are short, a few for the numbers of their words."""
    monkeypatch.setattr(statistical, "BLOCK_CELLS", 1 << 12)

    def peak(pairs):
        text = random_text(pairs, seed=6, words=50)
        tracemalloc.start()
        aligner = StatisticalAligner(ParallelWords(*text))
        aligner.train()
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return memory, sum(block.entries.size for block in aligner.text.blocks)

    (small, few), (large, many) = peak(500), peak(2000)
    assert large - small < 20 * (many - few)


def test_the_demo_is_linked_as_its_grammar_says():
    """Of 1,000 pairs; the diagonal has 33 % of error."""
    sides = [(ROOT / "data" / "demo" / f"train.{suffix}").read_text(encoding="utf-8") for suffix in ("en", "fr")]
    aligner = StatisticalAligner(ParallelWords(*([line.split() for line in side.split("\n")[:1000]] for side in sides)))
    aligner.train()
    gold = read_pharaoh(ROOT / "data" / "demo" / "train.align")[:1000]
    assert alignment_error_rate(list(aligner.links()), gold).aer < 0.05

"""Where a span of source words is in the translation: nested as the sources, never crossing, and by the right rows."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.alignment import word_matrix
from qkv.alignment.readout_selection import last_layer_readout
from qkv.files.run_directory import PACKAGED
from qkv.markup import projection
from qkv.markup.projection import LinkedText, covered, find_words, link_texts, project_spans
from qkv.run.trained_run import load_run
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.lines.text_file import read_lines


def words_of_length(*lengths):
    """The character ranges of words of these lengths, with a space between them."""
    ends = list(itertools.accumulate(length + 1 for length in lengths))
    return [(end - 1 - length, end - 1) for end, length in zip(ends, lengths, strict=True)]


def linked_by(links, source, target, probability=1.0):
    """A text whose words are linked by these links, with words of one to three characters."""
    probabilities = np.zeros((target, source))
    for i, j in links:
        probabilities[j, i] = probability
    lengths = itertools.cycle((1, 3, 2))
    return LinkedText(*(words_of_length(*itertools.islice(lengths, n)) for n in (source, target)), probabilities)


def project_words(linked, *spans, parents=None):
    """Projects ranges of source words; returns ranges of target words."""
    results = project_spans(
        [(linked.source[first][0], linked.source[last - 1][1]) for first, last in spans], linked, parents
    )
    starts, ends = [start for start, _ in linked.target], [end for _, end in linked.target]
    return [(starts.index(start), ends.index(end) + 1) if start < end else None for start, end in results]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t ", []),
        ("The house.", ["The", "house", "."]),
        ("l'eau n’est pas", ["l'", "eau", "n’", "est", "pas"]),
        ("'quoted' don't", ["'", "quoted", "'", "don'", "t"]),
        ("3.14, 1,000 and 10:30.", ["3.14", ",", "1,000", "and", "10:30", "."]),
        ("2.x ...5", ["2", ".", "x", ".", ".", ".", "5"]),
        ("e\u0301te\u0301 شَمس", ["e\u0301te\u0301", "شَمس"]),
        ("猫が好き。", ["猫", "が", "好", "き", "。"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("\U0001f469\u200d\U0001f4bb ok", ["\U0001f469\u200d\U0001f4bb", "ok"]),
    ],
)
def test_words_are_words_and_single_punctuation_marks(text, words):
    assert [text[slice(*word)] for word in find_words(text)] == words


@given(st.text(alphabet="ab1'. ,\u0301\u200d猫-", max_size=12))
def test_words_hold_all_characters_but_white_space_once_and_in_order(text):
    words = find_words(text)
    assert all(start < end for start, end in words)
    assert sorted(words) == words
    assert [index for word in words for index in range(*word)] == [
        index for index, character in enumerate(text) if not character.isspace()
    ]


def random_text(generator):
    """A text of up to five words, its translation of up to six, and probabilities of links, many of them 0 or 1."""
    source, target = int(generator.integers(0, 6)), int(generator.integers(0, 7))
    numbers = generator.choice([0.0, 0.0, 0.0, 1.0, 0.05, 0.3, 0.6, 0.95], (target, source))
    return linked_by([], source, target)._replace(probabilities=numbers)


def random_tree(generator, linked):
    """Ranges of the text that are nested or apart, in any order, with the index of the parent of each."""
    spans, parents = [], []

    def add(start, stop, parent, depth):
        borders = np.sort(generator.integers(start, stop + 1, generator.choice([2, 4]))).tolist()
        for first, last in zip(borders[::2], borders[1::2], strict=True):
            spans.append((first, last))
            parents.append(parent)
            if depth:
                add(first, last, len(spans) - 1, depth - 1)

    add(0, linked.source[-1][1] if linked.source else 3, None, 2)
    order = generator.permutation(len(spans)).tolist()
    new = {old: index for index, old in enumerate(order)}
    return [spans[old] for old in order], [new.get(parents[old]) for old in order]


TEXTS = 600
"""The number of random texts that a property is tried on: enough to see each break of `project_spans` that was tried.
"""


def is_around(outer, inner):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def are_apart(first, second):
    return first[1] <= second[0] or second[1] <= first[0]


def test_places_are_nested_as_the_spans_and_never_cross():
    generator = np.random.default_rng(0)
    for _ in range(TEXTS):
        linked = random_text(generator)
        spans, parents = random_tree(generator, linked)
        results = project_spans(spans, linked, parents)
        borders = set(itertools.chain(*linked.target)) or {0}
        children = {}
        for index, (result, parent) in enumerate(zip(results, parents, strict=True)):
            assert set(result) <= borders
            assert parent is None or is_around(results[parent], result)
            assert all(are_apart(result, results[other]) for other in children.get(parent, []))
            children.setdefault(parent, []).append(index)


def test_parents_that_are_not_given_are_found():
    generator = np.random.default_rng(1)
    for _ in range(TEXTS):
        linked = random_text(generator)
        spans, _ = random_tree(generator, linked)
        results = project_spans(spans, linked)
        for (i, span), (j, other) in itertools.permutations(enumerate(spans), 2):
            if span[0] < span[1] and other[0] < other[1] and is_around(span, other) and (span != other or i < j):
                assert is_around(results[i], results[j])
            elif are_apart(span, other):
                assert are_apart(results[i], results[j])


def test_the_whole_text_is_the_whole_translation_and_an_empty_span_is_a_point():
    generator = np.random.default_rng(2)
    for _ in range(100):
        linked = random_text(generator)
        whole = (linked.source[0][0], linked.source[-1][1]) if linked.source else (0, 0)
        start, stop = (linked.target[0][0], linked.target[-1][1]) if linked.target else (0, 0)
        spans = [whole, (0, 0), (whole[1],) * 2, whole]
        (first, last), before, after, twice = project_spans(spans, linked, [None] * 3 + [0])
        if linked.source:
            assert (first, last) == twice == (start, stop)
            assert (before, after) == ((start, start), (stop, stop))
        else:
            assert first == last


@given(st.permutations(range(5)), st.integers(0, 4), st.integers(1, 5))
def test_linked_words_that_stand_together_are_the_place_in_any_order(order, first, length):
    """With certain links, one for each word, and nothing between the linked words."""
    linked = linked_by(enumerate(order), 5, 5)
    span = first, min(first + length, 5)
    words = sorted(order[slice(*span)])
    if words[-1] - words[0] < len(words):
        assert project_words(linked, span) == [(words[0], words[-1] + 1)]


def test_a_place_agrees_best_with_the_range_that_covers_the_links_in_expectation():
    generator = np.random.default_rng(3)
    for _ in range(100):
        probabilities = generator.random((int(generator.integers(0, 7)), 4)) ** 3
        column = probabilities[:, 1]
        inside = []
        for j, linked in enumerate(column):  # `covered`, word by word
            before = max((column[k] * 0.8 ** (j - k - 1) for k in range(j)), default=0)
            after = max((column[k] * 0.8 ** (k - j - 1) for k in range(j + 1, len(column))), default=0)
            inside.append(linked + (1 - linked) * before * after)
        np.testing.assert_allclose(covered(column), inside, atol=1e-12)
        [place] = project_words(linked_by([], 4, len(column))._replace(probabilities=probabilities), (1, 2))
        if max(column, default=0) < 0.1:
            assert place is None
            continue

        def agreement(first, last, inside=inside):
            return 2 * sum(inside[first:last]) / (last - first + sum(inside))

        best = max(agreement(*borders) for borders in itertools.combinations(range(len(inside) + 1), 2))
        assert agreement(*place) == pytest.approx(best)


def test_one_wrong_link_far_away_moves_no_border():
    linked = linked_by([(i, i) for i in range(9)], 9, 9)
    linked.probabilities[8, 1] = 0.4  # the smallest range of links above 0.33 would be seven words
    assert project_words(linked, (1, 3)) == [(1, 3)]


def test_the_words_of_a_translation_that_is_apart_enclose_what_stands_between_them():
    linked = linked_by([(0, 0), (1, 1), (1, 3), (2, 2)], 3, 4)  # she does not sleep: elle ne dort pas
    assert project_words(linked, (1, 2)) == [(1, 4)]


def test_siblings_share_no_word():
    linked = linked_by([(0, 0), (1, 1), (1, 3), (2, 2)], 3, 4)
    apart, verb = project_words(linked, (1, 2), (2, 3))
    assert verb == (2, 3)
    assert apart in ((1, 2), (3, 4))


def test_a_word_without_links_is_a_point_between_its_neighbours():
    linked = linked_by([(0, 0), (2, 1)], 3, 2)
    result = project_spans([linked.source[1]], linked)
    assert result == [(linked.target[1][0],) * 2]


def test_a_point_stays_with_the_word_that_it_touches():
    linked = linked_by([(0, 0), (1, 2), (2, 1), (3, 3)], 4, 4)  # the black dog sleeps: le chien noir dort
    after_black, before_dog = (linked.source[1][1],) * 2, (linked.source[2][0],) * 2
    assert project_spans([after_black], linked) == [(linked.target[2][1],) * 2]
    assert project_spans([before_dog], linked) == [(linked.target[1][0],) * 2]


def test_a_span_takes_no_punctuation_with_it(monkeypatch):
    """A token that is a word with its mark gives both the same weights."""
    record = object()
    weights = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    readout = SimpleNamespace(calibration=None, word_weights=lambda _: weights)
    monkeypatch.setattr(projection, "_known_readout", lambda run: readout)
    monkeypatch.setattr(projection, "known_statistics", lambda run: None)
    monkeypatch.setattr(projection.Direction, "records", lambda self: iter([record]))
    [linked] = link_texts(None, ["house. yes"], ["maison! oui"])
    assert project_spans([(0, 5), (5, 6)], linked) == [(0, 6), (6, 7)]


@pytest.fixture(scope="module")
def demo():
    return load_run(PACKAGED)


@pytest.fixture(scope="module")
def gold_pairs():
    pairs = (list(read_lines(Path(f"data/demo/test.{language}"))[:40]) for language in ("en", "fr"))
    return *pairs, read_pharaoh("data/demo/test.align")[:40]


def share_right(linked_pairs, gold_pairs):
    """The share of source words with one gold link whose place is the linked word."""
    right = []
    for source, target, links, linked in zip(*gold_pairs, linked_pairs, strict=True):
        source_words, target_words = map(words_at_spaces, (source, target))
        of_words = {}
        for i, j in links.possible:
            of_words.setdefault(i, []).append(j)
        for i, linked_words in of_words.items():
            if len(linked_words) == 1:
                [place] = project_spans([source_words[i]], linked)
                right.append(place == target_words[linked_words[0]])
    assert len(right) > 200
    return np.mean(right)


def words_at_spaces(text):
    return words_of_length(*map(len, text.split(" ")))


def test_the_places_of_single_words_are_the_gold_ones(demo, gold_pairs):
    assert share_right(link_texts(demo, *gold_pairs[:2]), gold_pairs) > 0.95


@pytest.mark.parametrize("drift", [-1, 1])
def test_links_that_are_shifted_by_a_word_are_seen(demo, gold_pairs, drift):
    shifted = (
        linked._replace(probabilities=np.roll(linked.probabilities, drift, axis=0))
        for linked in link_texts(demo, *gold_pairs[:2])
    )
    assert share_right(shifted, gold_pairs) < 0.2


def test_rows_of_the_other_label_side_are_seen(demo, gold_pairs, monkeypatch):
    """Read on the other side, each row belongs to the token before: all tags would be one word late."""
    found = {}
    for side in ("output", "input"):
        readout = last_layer_readout(demo)
        monkeypatch.setattr(projection, "_known_readout", lambda run, r=readout, s=side: replace(r, side=s))
        found[side] = share_right(link_texts(demo, *gold_pairs[:2]), gold_pairs)
    assert found["output"] > 0.9
    assert found["input"] < 0.5


def test_the_calibrated_links_know_their_rows(demo, gold_pairs, monkeypatch):
    """The drift of one word: if the rows of all features move by a token, most places are wrong."""
    monkeypatch.setattr(word_matrix, "row_words", lambda words, side: [None, *words][: len(words)])
    assert share_right(link_texts(demo, *gold_pairs[:2]), gold_pairs) < 0.5

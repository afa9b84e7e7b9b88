"""The statistics of a training text: as the aligner's on its own text, by spelling and position on other text, and kept
in the run as data."""

import shutil

import numpy as np
import pytest

from qkv.alignment import word_statistics
from qkv.alignment.statistical import ParallelWords, StatisticalAligner
from qkv.alignment.word_statistics import (
    find_word_statistics,
    learn_word_statistics,
    read_word_statistics,
    write_word_statistics,
)
from qkv.errors import InputError
from qkv.files.run_directory import PACKAGED
from qkv.markup import projection
from qkv.markup.projection import link_texts
from qkv.run.trained_run import load_run
from qkv.text.lines.line import words_of


def text_in_order(pairs=400):
    """Sentences of the words a to l, whose translations are in capitals and in the same order; some have one more."""
    generator = np.random.default_rng(0)
    sources = [[*map("abcdefghijkl".__getitem__, generator.permutation(12)[: 3 + i % 4])] for i in range(pairs)]
    targets = [[f"q{word}" for word in words] + ["!"] * (i % 3 == 0) for i, words in enumerate(sources)]
    return sources, targets


@pytest.fixture(scope="module")
def learnt():
    return learn_word_statistics(*text_in_order())


def test_pairs_of_the_text_have_the_probabilities_of_the_aligner(monkeypatch):
    monkeypatch.setattr(word_statistics, "LEAST_COUNT", 0)
    monkeypatch.setattr(word_statistics, "LEAST_NULL", 1e-20)
    monkeypatch.setattr(word_statistics, "UPDATES_IN_PAIR", 0)
    generator = np.random.default_rng(1)
    sources, targets = (
        [["abcdefgh"[letter] for letter in generator.integers(0, 8, generator.integers(1, 7))] for _ in range(60)]
        for _ in range(2)
    )
    statistics = learn_word_statistics(sources, targets)
    aligner = StatisticalAligner(ParallelWords(sources, targets))
    aligner.train()
    expected = {
        block.first + pair: (forward + backward)[:, pair] / 2
        for block, (forward, backward) in zip(aligner.text.blocks, aligner.probabilities(), strict=True)
        for pair in range(forward.shape[1])
    }
    for number, source, target in zip(aligner.text.pair_numbers, sources, targets, strict=True):
        np.testing.assert_allclose(statistics.probabilities(source, target), expected[number], atol=2e-3)


def test_known_words_are_linked_in_any_order(learnt):
    links = learnt.probabilities(["a", "b", "c"], ["qc", "!", "qb", "qa"])
    assert links.shape == (4, 3)
    assert (links > 0.5).tolist() == [[False, False, True], [False] * 3, [False, True, False], [True, False, False]]


def test_unknown_words_are_linked_by_their_position(learnt):
    links = learnt.probabilities(["a", "xx", "b", "c"], ["qa", "yy", "qb", "qc", "!"])
    assert links[1].argmax() == 1 and links[1, 1] > 0.5


def test_unknown_words_are_linked_by_their_spelling():
    sources, targets = text_in_order()
    generator = np.random.default_rng(2)
    statistics = learn_word_statistics(sources, [generator.permutation(words).tolist() for words in targets])
    links = statistics.probabilities(["Strasbourg", "a", "1998"], ["1998", "qa", "strassburg", "!"])
    assert links.argmax(axis=0).tolist() == [2, 1, 0]


def test_only_links_are_kept(learnt):
    kept = [
        (learnt.vocabularies[0][code // len(learnt.vocabularies[1])], learnt.vocabularies[1][code % 13])
        for code in learnt.linked
    ]
    assert kept == [(word, f"q{word}") for word in "abcdefghijkl"]


def test_a_sentence_without_words_or_with_too_many_keeps_its_probabilities(learnt, monkeypatch):
    assert learnt.mean_with(np.zeros((0, 2)), ["a", "b"], []).shape == (0, 2)
    given = np.full((2, 1), 0.25)
    expected = (given + learnt.probabilities(["a"], ["qa", "qb"])) / 2
    np.testing.assert_array_equal(learnt.mean_with(given, ["a"], ["qa", "qb"]), expected)
    monkeypatch.setattr(word_statistics, "LONGEST_SENTENCE", 1)
    assert learnt.mean_with(given, ["a"], ["qa", "qb"]) is given


def test_a_text_without_links_gives_numbers():
    statistics = learn_word_statistics([[f"a{i}", f"b{i}"] * 20 for i in range(3)], [[f"c{i}"] for i in range(3)])
    links = statistics.probabilities(["x", "y"], ["z"])
    assert links.shape == (1, 2) and np.isfinite(links).all()


def same(first, second):
    pairs = zip(vars(first).items(), vars(second).items(), strict=False)
    return all(
        all(map(np.array_equal, one, other)) if isinstance(one, tuple) else np.array_equal(one, other)
        for (name, one), (_, other) in pairs
        if not name.startswith("_")
    )


def test_a_written_file_is_read_as_it_was(learnt, tmp_path):
    path = tmp_path / "word_statistics.npz"
    write_word_statistics(path, learnt)
    assert same(read_word_statistics(path), learnt) and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": np.array(9)}, "expected format 1"),
        ({"counts": np.ones(3, np.float32)}, "counts is of shape"),
        ({"source_nulls": np.ones(3, np.float32)}, "source_nulls is of shape"),
        ({"target_totals": np.full(13, np.nan, np.float32)}, "expected positive numbers"),
        ({"jumps": np.zeros((2, 41), np.float32)}, "expected positive numbers"),
        ({"linked": np.arange(12)[::-1]}, "expected ascending numbers"),
        ({"linked": np.arange(12) + 1000}, "not in the vocabulary"),
        ({"linked": np.arange(12) - 1}, "not in the vocabulary"),
        ({"target_words": np.full(9, 255, np.uint8)}, "UnicodeDecodeError"),
        ({"counts": np.array([{}] * 12, object)}, "counts says that it is of shape"),
        (None, "BadZipFile"),
    ],
)
def test_a_damaged_file_is_named(learnt, tmp_path, change, message):
    path = tmp_path / "word_statistics.npz"
    write_word_statistics(path, learnt)
    with np.load(path) as arrays:
        content = dict(arrays)
    if change is None:
        path.write_bytes(path.read_bytes()[:-40])
    else:
        np.savez_compressed(path, **content | change)
    with pytest.raises(
        InputError, match=r"word_statistics.npz: expected the word links that .*delete the file"
    ) as caught:
        read_word_statistics(path)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def small(unbroken, tmp_path_factory):
    """A copy of a run with a small training text."""
    return load_run(shutil.copytree(unbroken, tmp_path_factory.mktemp("statistics") / "run"))


@pytest.fixture
def run(small, monkeypatch):
    """The run, without statistics in memory or in its folder; its text counts as long enough."""
    monkeypatch.setattr(word_statistics, "LEAST_PAIRS", 1)
    monkeypatch.setattr(word_statistics, "_in_memory", {})
    small.directory.word_statistics.unlink(missing_ok=True)
    return small


def test_a_run_learns_them_once(run, monkeypatch, caplog):
    first = find_word_statistics(run, words_of)
    assert "learning word links from" in caplog.text and run.directory.word_statistics.is_file()
    caplog.clear()
    assert find_word_statistics(run, words_of) is first
    word_statistics._in_memory.clear()
    assert same(find_word_statistics(run, words_of), first) and not caplog.text


def test_a_large_text_is_read_in_part(run, monkeypatch):
    monkeypatch.setattr(word_statistics, "MOST_PAIRS", 3)
    lines = []
    find_word_statistics(run, lambda line: lines.append(line) or words_of(line))
    assert len(lines) == 6


def test_without_a_text_there_are_none(run, monkeypatch):
    word_statistics._in_memory.clear()
    monkeypatch.setattr(word_statistics, "LEAST_PAIRS", 10**6)
    assert find_word_statistics(run, words_of) is None
    word_statistics._in_memory.clear()
    monkeypatch.setattr(word_statistics, "LEAST_PAIRS", 1)
    monkeypatch.setattr(word_statistics, "missing_file", lambda settings: "lost.txt")
    assert find_word_statistics(run, words_of) is None
    assert find_word_statistics(load_run(PACKAGED), words_of) is None
    assert not run.directory.word_statistics.exists() and not (PACKAGED / "word_statistics.npz").exists()


def test_a_full_disk_leaves_no_part_of_the_file(run, monkeypatch):
    def fail(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    before = sorted(run.directory.root.iterdir())
    monkeypatch.setattr(np, "savez_compressed", fail)
    assert find_word_statistics(run, words_of) is not None
    assert sorted(run.directory.root.iterdir()) == before


def test_links_of_a_text_are_the_mean_and_the_same_alone_and_together(run, monkeypatch):
    texts, translations = ["the cat sleeps .", "the dog"], ["le chat dort", "le chien dort ."]
    together = list(link_texts(run, texts, translations))
    alone = [next(link_texts(run, [text], [other])) for text, other in zip(texts, translations, strict=True)]
    statistics = find_word_statistics(run, words_of)
    monkeypatch.setattr(projection, "find_word_statistics", lambda run, divide: None)
    attention = list(link_texts(run, texts, translations))
    for text, translation, *linked in zip(texts, translations, together, alone, attention, strict=True):
        both, single, by_attention = (pair.probabilities for pair in linked)
        np.testing.assert_allclose(both, single, atol=1e-5)
        by_words = statistics.probabilities(text.split(), translation.split())
        np.testing.assert_allclose(both, (by_attention + by_words) / 2, atol=1e-5)

"""Readings that are kept as files are those that were made, whoever makes, damages or deletes them."""

import os

import numpy as np
import pytest

from qkv.files.atomic import temporary_path
from qkv.text.corpora import corpus
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.filters import TextFilters
from qkv.text.corpora.overlap import SharedSentences
from qkv.text.shards import ShardReader, folder_name, read_pairs
from tests.support.text import SENTENCES

SOURCES = [*SENTENCES, "", "Some &apos; ÉCRIT 3"]
TARGETS = [*SENTENCES[2:], *SENTENCES[:2], "x", "y 3"]
CORPUS = Corpus(SOURCES, TARGETS, range(1, len(SOURCES) + 1), "made.tsv")
OTHER = Corpus([SENTENCES[0]], [TARGETS[0]], [1], "other.tsv")


@pytest.fixture(scope="module")
def reader(tokenizer):
    filters, others = TextFilters(digits=True, near_duplicates=True), {"test": SharedSentences.of(OTHER)}
    return ShardReader(tokenizer.side_models, True, others, filters)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(corpus, "SHARD_PAIRS", 3)


def assert_same(found, expected):
    for one, other in zip(found[0].sides, expected[0].sides, strict=True):
        assert one.ids.dtype == other.ids.dtype
        assert one.ids.tolist() == other.ids.tolist() and one.starts.tolist() == other.starts.tolist()
    for name in ("empty", "digests", "filtered", "near_digests"):
        np.testing.assert_array_equal(getattr(found[1], name), getattr(expected[1], name))
    assert [one.style for one in found[1].styles] == [one.style for one in expected[1].styles] and found[
        1
    ].shared == expected[1].shared


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_readings_come_back_from_their_files_and_only_missing_ones_are_made(reader, tmp_path):
    expected = read_pairs(CORPUS, reader, processes=1)
    folder = tmp_path / "kept"
    assert_same(read_pairs(CORPUS, reader, processes=1, folder=folder), expected)
    made = content(folder)
    assert len(made) == -(-len(SOURCES) // 3)

    asked = []

    def counting(pairs):
        asked.append(pairs[0][0])
        return reader(pairs)

    (folder / "000001.npz").unlink()
    (folder / "000002.npz").write_bytes(made["000002.npz"][:-40])
    data = bytearray(made["000000.npz"])
    data[data.index(b"NUMPY") + 130] ^= 1  # in the ids
    (folder / "000000.npz").write_bytes(data)
    assert_same(read_pairs(CORPUS, counting, processes=1, folder=folder), expected)
    assert sorted(asked) == sorted([SOURCES[0], SOURCES[3], SOURCES[6]])
    assert content(folder) == made
    asked.clear()
    assert_same(read_pairs(CORPUS, counting, processes=1, folder=folder), expected)
    assert asked == []


def test_what_a_killed_process_left_is_deleted_and_what_another_writes_is_not(reader, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    old, new = (temporary_path(folder / f"00000{number}.npz") for number in (0, 1))
    others = folder / ".mine.20240101.npz"
    for path in (old, new, others):
        path.write_bytes(b"half")
    for path in (old, others):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    read_pairs(CORPUS, reader, processes=1, folder=folder)
    assert new.exists() and others.exists() and not old.exists()


def test_processes_write_the_same_bytes(reader, tmp_path):
    both = (read_pairs(CORPUS, reader, processes=number, folder=tmp_path / str(number)) for number in (1, 2))
    assert_same(*both)
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_a_folder_is_named_by_everything_that_readings_depend_on():
    assert folder_name({"a": 1, "b": 2}) == folder_name({"b": 2, "a": 1}) != folder_name({"a": 1, "b": 3})

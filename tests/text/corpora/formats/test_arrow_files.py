"""Parquet files and zstd are read as the same text in other files, and refused in one message when they are damaged."""

import gzip
import sys

import numpy as np
import pytest

from qkv.config.corpus import CorpusSettings
from qkv.errors import InputError
from qkv.text.corpora.formats import BATCH_BYTES, open_parquet, read_corpus, read_parquet_column
from qkv.text.lines.text_file import import_pyarrow

SOURCES = ["a cat", "", 'he said "no"', "naïve \u2028 text", "last"]
TARGETS = ["un chat", "x", "non", "é", ""]

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def zstd(text):
    return pyarrow.compress(text.encode(), "zstd", asbytes=True)


def write_parquet(path, **columns):
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)


@pytest.fixture
def table(tmp_path):
    write_parquet(
        tmp_path / "t.parquet",
        id=[1, 2, 3, 4, 5],
        translation=[{"en": en, "fr": fr} for en, fr in zip(SOURCES, TARGETS, strict=True)],
        words=pyarrow.array(SOURCES).dictionary_encode(),
        split=["train", "test", "train", "test", "train"],
    )
    return tmp_path / "t.parquet"


def pairs(**settings):
    return list(read_corpus(CorpusSettings(**settings)).pairs())


def test_columns_are_read_by_name_also_within_others_and_by_number(table):
    expected = list(zip(SOURCES, TARGETS, strict=True))
    assert pairs(table=table, source_column="translation.en", target_column="translation.fr") == expected
    assert pairs(table=table, source_column="words", target_column=2) == expected
    labels = table.with_name("split.txt")
    labels.write_text("train\ntest\ntrain\ntest\ntrain\n")
    split = {"split_file": labels, "split": "test"}
    corpus = read_corpus(CorpusSettings(table=table, source_column=1, target_column=2, **split))
    assert list(corpus.pairs()) == expected[1::2] and corpus.location(1) == f"{table}:4"
    chosen = corpus.select(np.array([1]))
    assert list(chosen.source) == [SOURCES[3]] and chosen.line_numbers[0] == 4


def test_null_is_empty_and_line_ends_within_a_row_become_spaces(tmp_path):
    write_parquet(tmp_path / "t.parquet", a=["x\ny", None, "z\r\n"], b=pyarrow.array(["1", "2", "3"], "large_string"))
    assert pairs(table=tmp_path / "t.parquet") == [("x y", "1"), ("", "2"), ("z ", "3")]


def test_zstd_is_read_as_gzip_and_plain_text_are_also_in_several_frames(tmp_path):
    lines = "".join(f"{line}\n" for line in SOURCES)
    (tmp_path / "plain").write_text(lines, encoding="utf-8")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "packed.zst").write_bytes(zstd(lines[:20]) + zstd(lines[20:]))
    for name in ("packed.gz", "packed.zst"):
        corpus = read_corpus(CorpusSettings(source=tmp_path / "plain", target=tmp_path / name))
        assert list(corpus.source) == list(corpus.target) == SOURCES
    (tmp_path / "table.tsv.zst").write_bytes(zstd("a\tb\nc\td\n"))
    assert pairs(table=tmp_path / "table.tsv.zst") == [("a", "b"), ("c", "d")]


def refused(match, **settings):
    with pytest.raises(InputError, match=match):
        pairs(**settings)


def test_damaged_files_are_refused(tmp_path, table):
    content = table.read_bytes()
    for name, damaged in {
        "cut": content[:-30],
        "none": b"",
        "text": b"a\tb\n",
        "zeros": content[:4] + bytes(200) + content[204:],
    }.items():
        (tmp_path / f"{name}.parquet").write_bytes(damaged)
        refused(
            rf"{name}.parquet: .*(Parquet file)", table=tmp_path / f"{name}.parquet", source_column=1, target_column=2
        )
    packed = zstd("".join(SOURCES) * 100)
    (tmp_path / "cut.zst").write_bytes(packed[:-5])
    refused("cut.zst: damaged zstd file .*Truncated", source=tmp_path / "cut.zst", target=tmp_path / "cut.zst")
    (tmp_path / "odd.zst").write_bytes(packed[:4] + b"\xff\xff" + packed[6:])
    refused("odd.zst: damaged zstd file", source=tmp_path / "odd.zst", target=tmp_path / "odd.zst")


def test_wrong_columns_and_names_are_told(tmp_path, table):
    refused("no column 'en'; there are id, translation.en", table=table, source_column="en")
    refused("no column 9; .*numbered from 0 to 4", table=table, source_column=9)
    refused("column 'id' holds int64; expected text", table=table)
    refused("there is no such file", table=tmp_path / "missing.parquet")
    other = tmp_path / "table"
    other.write_bytes(table.read_bytes())
    refused("a Parquet file, which is read as a table if its name ends in .parquet", table=other)
    write_parquet(tmp_path / "empty.parquet", a=pyarrow.array([], "string"), b=pyarrow.array([], "string"))
    refused("no rows", table=tmp_path / "empty.parquet")


def test_columns_whose_names_have_dots_or_begin_alike_are_told_apart(tmp_path):
    inner = [{"b.c": "2", "b": "3"}, None]
    write_parquet(tmp_path / "t.parquet", **{"en.1": ["1", "1"], "en": ["0", "0"], "a": inner})
    for column, expected in {"en.1": "1", "a.b.c": "2", "a.b": "3"}.items():
        found = pairs(table=tmp_path / "t.parquet", source_column="en", target_column=column)
        assert found == [("0", expected), ("0", "" if column.startswith("a") else expected)]


def test_two_columns_of_one_name_are_refused(tmp_path):
    twice = pyarrow.Table.from_arrays([pyarrow.array(["x"]), pyarrow.array(["y"])], names=["en", "en"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    refused("2 columns are named 'en'; rename", table=tmp_path / "t.parquet", source_column="en")
    refused("2 columns are named 'en'; rename", table=tmp_path / "t.parquet")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    buffers = pyarrow.array([b"\xff", b"a"]).buffers()
    invalid = pyarrow.StringArray.from_buffers(2, buffers[1], buffers[2])
    write_parquet(tmp_path / "t.parquet", a=invalid, b=["x", "y"])
    refused("damaged Parquet file", table=tmp_path / "t.parquet")


def test_without_pyarrow_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="is read by PyArrow, which is not installed; install it: pip install pyarrow"):
        import_pyarrow("x.zst", "a zstd file")
    (tmp_path / "packed.zst").write_bytes(b"(\xb5/\xfd")
    refused(
        "packed.zst: a zstd file is read by PyArrow", source=tmp_path / "packed.zst", target=tmp_path / "packed.zst"
    )
    refused("t.parquet: a Parquet file is read by PyArrow", table=tmp_path / "t.parquet")


def test_a_few_bytes_of_zstd_that_hold_gigabytes_are_refused(tmp_path):
    (tmp_path / "bomb.zst").write_bytes(zstd("\n" * (100 << 20)))
    refused("bomb.zst: .* bytes that unpack to", source=tmp_path / "bomb.zst", target=tmp_path / "bomb.zst")


@pytest.mark.parametrize("stored_type", [True, False])
def test_a_text_that_parquet_holds_once_for_many_rows_is_unpacked_in_small_parts(tmp_path, stored_type):
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 2000, "int32"), ["x" * 100_000])
    path, parts = tmp_path / "t.parquet", []
    parquet.write_table(pyarrow.table({"a": text}), path, compression="zstd", store_schema=stored_type)
    with pytest.raises(InputError, match=r"t\.parquet: .* bytes that unpack to"):
        parts.extend(len(content) for content, _ in read_parquet_column(path, open_parquet(path), "a"))
    assert 0 < max(parts) <= BATCH_BYTES


def test_a_part_of_a_parquet_file_that_says_it_unpacks_to_much_is_refused_unread(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": ["x" * (80 << 20)]}), path, compression="zstd")
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(200) + content[204:])  # reading it would find damage
    with pytest.raises(InputError, match=r"t\.parquet: .* bytes that unpack to"):
        next(read_parquet_column(path, open_parquet(path), "a"))


def test_rows_that_are_longer_than_what_is_unpacked_at_a_time_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.text.corpora.formats.BATCH_BYTES", 10)
    rows = ["long" * 10, "", "b", None, "c" * 11]
    write_parquet(tmp_path / "t.parquet", a=rows, b=rows)
    assert pairs(table=tmp_path / "t.parquet") == [(row or "", row or "") for row in rows]

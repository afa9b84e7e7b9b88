"""Every line keeps its place and every character its value, whatever the file looks like."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.text import lines
from pipeline.text.corpus import read_parallel_files, read_table
from pipeline.text.lines import read_lines

TRAPS = [
    '"',
    '"open',
    "NA",
    "null",
    "nan",
    "",
    " padded ",
    "a\u2028b",
    "a\x85b",
    "a\x0bb",
    "a\x00b",
    "a\rb",
    "#",
    "\\N",
]
SENTENCES = st.text(st.characters(exclude_characters="\n\r\t", exclude_categories=["Cs"])) | st.sampled_from(TRAPS)


@pytest.fixture
def write(tmp_path):
    def file(content, name="text"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return file


def read(corpus):
    return [list(corpus.source), list(corpus.target), list(corpus.line_numbers)]


# Lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\nb", ["a", "b"]),
        ("a\n\nb\n\n", ["a", "", "b", ""]),
        ("\n", [""]),
        ("\ufeffa\nb\n", ["a", "b"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf\n", ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        ("a\rb\n", ["a\rb"]),
        ("a\r", ["a\r"]),
    ],
)
def test_only_newlines_end_a_line_and_nothing_else_is_touched(write, content, lines):
    assert list(read_lines(write(content))) == lines
    assert list(read_lines(write(gzip.compress(content.encode()), "no_suffix"))) == lines


@pytest.mark.parametrize("block", [1, 2, 3, 7])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_where_the_file_is_cut_to_be_read_makes_no_difference(write, monkeypatch, block, end):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "CHUNK_LINES", 2)
    texts = ["a", "", "\U0001f600\U0001f600", "d\rd", "é\u2028x", "\ra", ""]
    found = read_lines(write(end.join([*texts, ""]), f"text{len(end)}"))
    assert list(found) == [*texts] == [found[i] for i in range(len(texts))]
    assert (found[1:5:2], found[-2:], found[9:]) == (texts[1:5:2], texts[-2:], [])
    assert list(found.select(np.array([0, 2, 5]))) == [texts[i] for i in (0, 2, 5)]


def test_bad_utf8_is_named_by_line_and_byte_also_after_a_byte_order_mark(write):
    path = write(b"\xef\xbb\xbfgut\nsch\xf6n\n")
    with pytest.raises(InputError, match=rf"{path}:2: byte 0xf6"):
        read_lines(path)


def test_utf16_is_recognised(write):
    with pytest.raises(InputError, match="UTF-16"):
        read_lines(write("a\nb\n".encode("utf-16")))


@pytest.mark.parametrize(
    "content", [b"", b"\xef\xbb\xbf", gzip.compress(b"")], ids=["nothing", "byte order mark", "gzip of nothing"]
)
def test_an_empty_file_is_refused(write, content):
    with pytest.raises(InputError, match="empty"):
        read_lines(write(content))


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:12] + b"\xff\xff" + data[14:]])
def test_a_damaged_gzip_file_is_refused(write, damage):
    with pytest.raises(InputError, match="damaged gzip"):
        read_lines(write(damage(gzip.compress(b"a line\n" * 100))))


def test_missing_files_and_directories_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_lines(tmp_path / "nothing")
    with pytest.raises(InputError, match="directory"):
        read_lines(tmp_path)


# Parallel files


def test_an_empty_line_on_one_side_keeps_the_pairs_aligned(write):
    corpus = read_parallel_files(write("one\n\nthree\n", "s"), write("un\ndeux\ntrois\n", "t"))
    assert list(zip(corpus.source, corpus.target, strict=True)) == [("one", "un"), ("", "deux"), ("three", "trois")]
    assert list(corpus.line_numbers) == [1, 2, 3]
    assert len(corpus) == 3


def test_sides_of_unequal_length_are_refused_with_both_counts(write):
    with pytest.raises(InputError, match=r"s has 2 lines and .*t has 3"):
        read_parallel_files(write("a\nb\n", "s"), write("a\nb\nc\n", "t"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    mark=st.booleans(),
    packed=st.booleans(),
)
def test_what_was_written_is_read(tmp_path, pairs, end, last, mark, packed):
    """Files and tables give back any text; a table holds no tab, and a file that is empty has no lines."""

    def file(name, lines):
        text = end.join(lines) + (end if last or not lines[-1] else "")
        data = (b"\xef\xbb\xbf" if mark or text.startswith("\ufeff") else b"") + text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
        return tmp_path / name

    sides = [list(side) for side in zip(*pairs, strict=True)]
    parallel = read_parallel_files(file("s", sides[0]), file("t", sides[1]))
    table = read_table(file("table", [f"{s}\t{t}" for s, t in pairs]), 0, 1)
    headed = read_table(file("headed", ["x\ty"] + [f"{t}\t{s}" for s, t in pairs]), "y", "x", header=True)
    for corpus in (parallel, table, headed):
        assert [list(corpus.source), list(corpus.target)] == sides


# Tables


def test_columns_are_chosen_by_name_in_any_order(write):
    path = write("id\tfrench\tenglish\n7\tva\tgo\n8\tsalut\thi\n")
    corpus = read_table(path, "english", "french", header=True)
    assert read(corpus) == [["go", "hi"], ["va", "salut"], [2, 3]]
    assert corpus.place(1) == f"{path}:3"


def test_a_split_keeps_the_line_numbers_of_the_file(write):
    labels = write("train\ntest\ntrain\ntest\n", "split.txt")
    table = write("a\tA\nb\tB\nc\tC\nd\tD\n")
    corpus = read_table(table, 0, 1, split_file=labels, split="test")
    assert read(corpus) == [["b", "d"], ["B", "D"], [2, 4]]
    assert len(read_table(table, 0, 1, split_file=labels)) == 4


def test_a_split_of_parallel_files_keeps_their_line_numbers(write):
    labels = write("train\ntest\ntrain\ntest\n", "split.txt")
    sides = write("a\nb\nc\nd\n", "x.en"), write("A\nB\nC\nD\n", "x.fr")
    corpus = read_parallel_files(*sides, split_file=labels, split="test")
    assert read(corpus) == [["b", "d"], ["B", "D"], [2, 4]]
    with pytest.raises(InputError, match=r"no lines of split 'tset'.*Did you mean 'test'"):
        read_parallel_files(*sides, split_file=labels, split="tset")


def test_a_split_column_counts_lines_after_the_header(write):
    table = write("s,t,set\na,A,train\nb,B,test\n")
    corpus = read_table(table, "s", "t", separator=",", header=True, split_column="set", split="test")
    assert read(corpus) == [["b"], ["B"], [3]]


def test_a_table_of_one_column_keeps_its_empty_lines(write):
    corpus = read_table(write("a\n\n \nb\n"), 0, 0)
    assert list(corpus.source) == list(corpus.target) == ["a", "", " ", "b"]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("a\tb\nc\n", {}, r":2: 1 columns; expected 2"),
        ("a\tb\nc\td\te\n", {}, r":2: 3 columns; expected 2"),
        ("a\tb\n\nc\td\n", {}, r":2: 1 columns"),
        ("a\tb\n", {"source_column": 2}, "no column 2; .* from 0 to 1"),
        ("a\tb\n", {"source_column": -1}, "no column -1"),
        ("a\tb\n", {"source_column": "en"}, "without a header"),
        ("english\tfrench\na\tb\n", {"source_column": "englsh", "header": True}, "Did you mean 'english'"),
        ("x\tx\na\tb\n", {"source_column": "x", "header": True}, "2 columns are named 'x'"),
        ("x\ty\n", {"header": True}, "only a header"),
        ("a\tb\n", {"separator": "||"}, "one ASCII character"),
        ("a\tb\n", {"split": "train"}, "either a split column or a split file"),
        ("a\ttrain\nb\ttest\nc\ttrain\n", {"split": "trian", "split_column": 1}, r"train \(2\), test \(1\).*'train'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(write, content, arguments, message):
    with pytest.raises(InputError, match=message):
        read_table(write(content), **({"source_column": 0, "target_column": 1} | arguments))


def test_a_split_file_of_another_length_is_refused(write):
    with pytest.raises(InputError, match="1 labels for the 2 rows"):
        read_table(write("a\tb\nc\td\n"), 0, 1, split_file=write("train\n", "split.txt"), split="train")


def test_bad_utf8_in_a_table_is_named_by_line(write):
    with pytest.raises(InputError, match=r":2: byte 0xe9"):
        read_table(write(b"a\tb\nc\t\xe9\n"), 0, 1)

"""Every line keeps its place and every character its value, whatever the file looks like."""

import gzip

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from qkv.config.corpus import CorpusSettings
from qkv.errors import InputError
from qkv.text.corpora.formats import read_corpus, read_corpus_table, read_parallel_files
from qkv.text.lines.line import compose

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


def read(corpus):
    return [list(corpus.source), list(corpus.target), list(corpus.line_numbers)]


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
def test_reading_gives_back_any_text_that_was_written(tmp_path, pairs, end, last, mark, packed):
    """Files and tables give back any text; a table holds no tab, and a file that is empty has no lines."""

    def file(name, lines):
        text = end.join(lines) + (end if last or not lines[-1] else "")
        data = (b"\xef\xbb\xbf" if mark or text.startswith("\ufeff") else b"") + text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
        return tmp_path / name

    assume(last or not any("\r" in side for side in pairs[-1]))  # a lone line with them is refused
    assume(len(pairs) > 1 or "".join(pairs[0]).count("\r") < 2)  # as is a table of one line with several
    sides = [list(side) for side in zip(*pairs, strict=True)]
    parallel = read_parallel_files(file("s", sides[0]), file("t", sides[1]))
    table = read_corpus_table(file("table", [f"{s}\t{t}" for s, t in pairs]), 0, 1)
    headed = read_corpus_table(file("headed", ["x\ty"] + [f"{t}\t{s}" for s, t in pairs]), "y", "x", header=True)
    for corpus in (parallel, table, headed):
        assert [list(corpus.source), list(corpus.target)] == [[*map(compose, side)] for side in sides]


# Tables


def test_columns_are_chosen_by_name_in_any_order(write):
    path = write("id\tfrench\tenglish\n7\tva\tgo\n8\tsalut\thi\n")
    corpus = read_corpus_table(path, "english", "french", header=True)
    assert read(corpus) == [["go", "hi"], ["va", "salut"], [2, 3]]
    assert corpus.location(1) == f"{path}:3"


def test_a_split_keeps_the_line_numbers_of_the_file(write):
    labels = write("train\ntest\ntrain\ntest\n", "split.txt")
    table = write("a\tA\nb\tB\nc\tC\nd\tD\n")
    corpus = read_corpus_table(table, 0, 1, split_file=labels, split="test")
    assert read(corpus) == [["b", "d"], ["B", "D"], [2, 4]]
    assert len(read_corpus_table(table, 0, 1, split_file=labels)) == 4


def test_a_table_of_one_column_keeps_its_empty_lines(write):
    corpus = read_corpus_table(write("a\n\n \nb\n"), 0, 0)
    assert list(corpus.source) == list(corpus.target) == ["a", "", " ", "b"]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("a\tb\nc\n", {}, r":2: 1 columns; expected 2"),
        ("a\tb\nc\td\te\n", {}, r":2: 3 columns; expected 2"),
        ("a\tb\n\nc\td\n", {}, r":2: 1 columns"),
        ("a\tb\n", {"source_column": 2}, "no column 2; .* from 0 to 1"),
        ("a\tb\n", {"source_column": -1}, "no column -1"),
        ("a\tb\n", {"source_column": "en"}, "no column 'en'; there are 0, 1"),
        ("english\tfrench\na\tb\n", {"source_column": "englsh", "header": True}, "did you mean english"),
        ("x\tx\na\tb\n", {"source_column": "x", "header": True}, "2 columns are named 'x'"),
        ("x\ty\n", {"header": True}, "only a header"),
        ("a\tb\n", {"separator": "||"}, "one ASCII character"),
        (b"a\tb\nc\t\xe9\n", {}, ":2: byte 0xe9"),
    ],
)
def test_tables_that_do_not_fit_are_refused(write, content, arguments, message):
    with pytest.raises(InputError, match=message):
        read_corpus_table(write(content), **({"source_column": 0, "target_column": 1} | arguments))


def test_a_split_file_of_another_length_is_refused(write):
    with pytest.raises(InputError, match="1 labels for the 2 rows"):
        read_corpus_table(write("a\tb\nc\td\n"), 0, 1, split_file=write("train\n", "split.txt"), split="train")


def test_an_unknown_split_is_told_with_those_that_there_are(write):
    table, labels = write("a\tb\nc\td\ne\tf\n"), write("train\ntest\ntrain\n", "split.txt")
    with pytest.raises(InputError, match=r"train \(2\), test \(1\).*did you mean train"):
        read_corpus_table(table, 0, 1, split_file=labels, split="trian")


# Formats


def test_the_keys_of_a_corpus_section_choose_the_format_and_its_arguments(write):
    sides = {"source": write("a\nb\n", "x.en"), "target": write("A\nB\n", "x.fr")}
    labels = write("train\ntest\n", "split.txt")
    assert read(read_corpus(CorpusSettings(**sides))) == [["a", "b"], ["A", "B"], [1, 2]]
    assert read(read_corpus(CorpusSettings(**sides, split_file=labels, split="test"))) == [["b"], ["B"], [2]]
    table = write("s,t\na,A\nb,B\n", "x.csv")
    columns = {"source_column": "t", "target_column": "s", "split_file": labels, "split": "test"}
    settings = CorpusSettings(table=table, header=True, **columns)
    assert read(read_corpus(settings)) == [["B"], ["b"], [3]]

"""Tables as strangers have them are read right, or one message says what to set."""

import csv
import gzip
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.corpora.formats import read_corpus_table, read_text_columns
from qkv.text.lines.line import compose

ATTRIBUTION = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250 (Wittydev)"


def sides(path, **arguments):
    corpus = read_corpus_table(path, 0, 1, **arguments)
    return list(corpus.pairs())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("further", ["", f"\t{ATTRIBUTION}"])
def test_tables_of_manythings_are_read_with_and_without_attribution(write, further, mark, end):
    text = mark + "".join(f"{pair}{further}{end}" for pair in ("Go.\tVa !", 'Say "hi".\tDis "salut".'))
    assert sides(write(text)) == [("Go.", "Va !"), ('Say "hi".', 'Dis "salut".')]


CELLS = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
@example(pairs=[("\u037e", "e\u0301")])  # a Greek question mark, which NFC makes a semicolon
@given(pairs=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_quoted_tables_give_back_what_a_spreadsheet_wrote(separator, quoting, pairs, tmp_path_factory):
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=quoting, lineterminator="\r\n").writerows([("a", "b"), *pairs])
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_bytes(written.getvalue().encode())
    expected = [tuple(map(compose, pair)) for pair in pairs]
    assert sides(path, separator=separator, header=True) == expected


def test_columns_of_quoted_tables_have_their_bare_names(write):
    path = write('"english, spoken","french"\n"Hello, you","Salut, ""toi"""\n', "table.csv")
    corpus = read_corpus_table(path, "english, spoken", "french", header=True)
    assert list(corpus.pairs()) == [("Hello, you", 'Salut, "toi"')]


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("t", 'a,b\n"c, d",e\n', {"separator": ","}, r":2: 3 columns; expected 2.*also inside quotes .*name in \.csv"),
        ("t.csv", '"a",b\n"c\n', {}, r":2: unexpected end of data; expected one row in each"),
        ("t", "a,b\nc,d\n", {}, r"no column 1: no line has the separator '\\t'; line 1 has ','; name the character"),
        ("t.csv", "a\tb\n", {}, r"no column 1: no line has the separator ','; line 1 has '\\t'; name the character"),
        ("t", "a b\n", {}, r"no line has the separator '\\t'; name the character"),
        ("t", "a\tb\tc\nd\te\n", {}, r":2: 2 columns; expected 3, as in line 1"),
    ],
)
def test_tables_that_are_read_another_way_say_what_to_set(write, name, content, arguments, message):
    with pytest.raises(InputError, match=message):
        sides(write(content, name), **arguments)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_csv_file_is_known_by_its_name_packed_or_not(write, name):
    content = b'"a, b",c\n'
    assert sides(write(gzip.compress(content) if name.endswith(".gz") else content, name)) == [("a, b", "c")]
    assert sides(write('"a"\tc\n', "t.csv.tsv")) == [('"a"', "c")]


@pytest.mark.parametrize(
    ("content", "rows"), [('"a","b"\n"c","d"\ne,f\n', "2 of 3 rows"), ('a,b\nc,d\n"he said ""e""",f\n', "1 of 3 rows")]
)
def test_quotes_that_look_like_those_of_a_spreadsheet_are_warned_of(write, content, rows, caplog):
    read_text_columns(write(content), [0], ",")
    assert f"{rows} have a column in double quotes, which are read as text" in caplog.text
    caplog.clear()
    read_text_columns(write(content), [0], ",", quoted=True)
    assert caplog.text == ""


def test_quotes_inside_sentences_are_no_reason_to_warn(write, caplog):
    read_text_columns(write('"Hi," he said.\t"Salut", dit-il.\n"Go."\tVa !\n"a""b"\tb\n'), [0], "\t")
    assert caplog.text == ""

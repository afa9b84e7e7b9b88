"""One meaning of line end, byte order mark, normal form and empty line, whichever way text comes."""

import gzip
import io
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.lines.line import (
    FORMAT_CHARACTERS,
    INVISIBLE,
    OTHER_SPACES,
    as_line,
    character_ranges,
    is_empty,
    list_sentences,
    shorten,
)
from qkv.text.lines.stream import ArrivingLines
from qkv.text.lines.text_file import read_lines
from qkv.text.shards import find_empty

UNSEEN = [*" \t\xa0\u3000\u2003\u2028\u200b\ufeff\x85\u200e\r\x00", " \t\u200b"]


def from_stream(data):
    return [line for window in ArrivingLines(io.BytesIO(data)).windows() for line in window]


@pytest.fixture
def all_ways(write):
    """Reads bytes as a file, packed, and by a stream."""

    def read(data):
        path = write(data)
        return [list(read_lines(path)), list(read_lines(write(gzip.compress(data), "packed"))), from_stream(data)]

    return read


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"\n", [""]),
        (b"a\r\nb\r\r\nc\r", ["a", "b\r", "c"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("e\u0301te\u0301 \u0627\u0653\n\u1100\u1161".encode(), ["été \u0622", "가"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r", ["a\r"]),
        (b"\r\n\n \n", ["", "", " "]),
    ],
)
def test_every_way_of_reading_gives_the_same_lines(all_ways, data, lines):
    assert all_ways(data) == [lines] * 3


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=8), min_size=1))
def test_files_streams_and_python_agree_on_any_text(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("text") / "lines"
    texts = [texts[0].lstrip("\ufeff") or "a", *texts[1:]]
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(data)
    expected = [unicodedata.normalize("NFC", text) for text in texts]
    assert list(read_lines(path)) == from_stream(data) == [as_line(text, "here") for text in texts] == expected


def test_bytes_that_are_no_text_are_told_alike_in_files_and_streams(write):
    data = b"\xef\xbb\xbfgut\nsch\xf6n\n"
    with pytest.raises(InputError, match=r":2: byte 0xf6 \(byte 11 of the text\) is not UTF-8, .* it is LATIN1; "):
        read_lines(write(data))
    with pytest.raises(InputError, match=r"standard input:2: byte 0xf6 is not UTF-8, .* it is LATIN1; "):
        from_stream(data)
    for read in (from_stream, lambda data: read_lines(write(data))):
        with pytest.raises(InputError, match=r":1: .* it is UTF-16; "):
            read("schön\n".encode("utf-16"))


@pytest.mark.parametrize("text", UNSEEN)
def test_a_line_without_anything_to_be_seen_is_empty_everywhere(text, tokenizers):
    assert is_empty(text)
    assert find_empty([text, "a", "a"], ["a", text, "a"]).tolist() == [True, True, False]
    for tokenizer in tokenizers.values():
        assert tokenizer.encode([text, "a cat"])[0] == [] == tokenizer.words_from_text([text])[0]
        assert tokenizer.encode(["a cat"])[0]


@pytest.mark.parametrize("text", ["a", " .", "\u0301", "中", "\u200bcat", "\ue000", "\u3164", "0"])
def test_a_line_with_anything_else_is_not_empty(text):
    assert not is_empty(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
def test_white_space_as_python_has_it_is_empty_too(text):
    assert is_empty(text) or text.strip()


def test_a_sentence_from_python_ends_with_its_line_and_has_one_alone():
    assert as_line("a cat\r\n", "x") == as_line("a cat\n", "x") == "a cat"
    with pytest.raises(InputError, match=r"sentence:3: 'a.nb' has several lines; expected one sentence"):
        as_line("a\nb", "sentence:3")
    with pytest.raises(InputError, match="half a character"):
        as_line("a\ud800", "x")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: b"\xef\xbb\xbf" + data])
def test_word_links_are_read_as_any_other_text(write, pack):
    found = read_pharaoh(write(pack(b"0-0 1?2\r\n\r\n2-1\r\n"), "t.align"))
    assert [sorted(one.possible) for one in found] == [[(0, 0), (1, 2)], [], [(2, 1)]]


def test_word_links_packed_by_zstd_are_read(write):
    pyarrow = pytest.importorskip("pyarrow")
    found = read_pharaoh(write(pyarrow.compress(b"0-0\n", "zstd", asbytes=True), "t.align.zst"))
    assert [sorted(one.possible) for one in found] == [[(0, 0)]]


def test_lines_of_a_part_are_composed_in_any_selection(write):
    lines = read_lines(write("e\u0301\nx\ne\u0301".encode()))
    assert lines.select(np.array([0, 2]))[:] == ["é", "é"]
    assert lines[2] == "é"


@pytest.mark.parametrize("data", [b"a\rb\r", b"\xef\xbb\xbfa b\r\rc"])
def test_text_whose_lines_end_in_carriage_returns_alone_is_refused_by_files_and_streams(write, data):
    for read in (lambda: read_lines(write(data)), lambda: from_stream(data)):
        with pytest.raises(InputError, match=r"lines end in a carriage return alone, .* tr '.r' '.n'"):
            read()
    with pytest.raises(InputError, match="lines end in a carriage return alone"):
        read_lines(write(b"a\rb\rc\n"))


def test_packed_text_is_named_where_it_is_not_unpacked(write):
    packed = gzip.compress(b"a\n", mtime=0)
    for read in (lambda: from_stream(packed), lambda: read_lines(write(gzip.compress(packed)))):
        with pytest.raises(InputError, match=r": this is packed by gzip; .*: gzip -dc FILE"):
            read()


@pytest.mark.parametrize("other", [b"a", 1, None, ["a"]])
def test_a_sentence_that_is_no_text_is_refused(other):
    with pytest.raises(InputError, match="sentence:1: expected text, found "):
        as_line(other, "sentence:1")


def test_sentences_from_python_are_one_text_or_any_ordered_container_of_texts():
    assert list_sentences("a", "x") == ["a"]
    for texts in (["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys(), np.array(["a", "b"])):
        assert list_sentences(texts, "x") == ["a", "b"]
    assert list_sentences([], "x") == []


@pytest.mark.parametrize("value", [None, 5, b"a", bytearray(b"a"), {"a": "b"}, {"a"}, ["a", 5], [["a"]], np.array("a")])
def test_what_is_no_sentence_is_refused_under_the_name_of_its_argument(value):
    with pytest.raises(InputError, match=r"^x(:1|:2)?: expected "):
        list_sentences(value, "x")


EVERY_CHARACTER = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def test_every_format_and_control_character_is_left_out_or_white_space():
    of_unicode = {character for character in EVERY_CHARACTER if unicodedata.category(character) in ("Cc", "Cf")}
    spaces = {character for character in EVERY_CHARACTER if character.isspace()}
    assert of_unicode - spaces <= set(FORMAT_CHARACTERS)
    assert set(OTHER_SPACES) == spaces - {" "}
    others = {unicodedata.category(character) for character in set(FORMAT_CHARACTERS) - of_unicode}
    assert others == {"Mn", "Lo", "Cn"}  # such as variation selectors, Hangul fillers, unassigned tags
    assert {"\u034f", "\u115f", "\u3164", "\ufe0f", "\U000e0041"} <= set(FORMAT_CHARACTERS)
    assert not set("a\u0301漢\ue000\ufffe\ufffd|<-") & set(FORMAT_CHARACTERS + OTHER_SPACES)
    assert INVISIBLE.findall("a\u00adb c\u00a0\u200d") == ["\u00ad", "\u00a0", "\u200d"]


CODE = r"\U{:08x}"  # a character in a regular expression of Python


@given(st.sets(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_ranges_of_a_class_match_its_characters_alone(characters):
    expression = re.compile(f"[{character_ranges(characters, CODE)}]")
    others = {chr(min(ord(character) + 1, 0x10FFFF)) for character in characters}
    assert {character for character in characters | others if expression.match(character)} == characters


@pytest.mark.parametrize("text", ["a\0b", "\0", "a\0"])
def test_a_sentence_with_a_nul_is_refused_with_its_place(text):
    with pytest.raises(InputError, match=rf"my\.en:3: character {text.index(chr(0)) + 1} is NUL .*; remove it: tr -d"):
        as_line(text, "my.en:3")


@pytest.mark.parametrize(("length", "expected"), [(5, "abcde"), (4, "abc…"), (1, "…")])
def test_a_text_is_shortened_to_a_number_of_characters_with_the_ellipsis(length, expected):
    assert shorten("abcde", length) == expected

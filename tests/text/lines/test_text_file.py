"""Only newlines end a line, however the file is written and read; other files are refused with their place."""

import gzip

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.text.lines import text_file as lines
from qkv.text.lines.text_file import read_lines


@pytest.mark.parametrize("block", [1, 2, 3, 7])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_do_not_depend_on_the_blocks_in_which_the_file_is_read(write, monkeypatch, block, end):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "CHUNK_LINES", 2)
    texts = ["a", "", "\U0001f600\U0001f600", "d\rd", "é\u2028x", "\ra", ""]
    found = read_lines(write(end.join([*texts, ""]), f"text{len(end)}"))
    assert list(found) == [*texts] == [found[i] for i in range(len(texts))]
    assert (found[1:5:2], found[-2:], found[9:]) == (texts[1:5:2], texts[-2:], [])
    assert list(found.select(np.array([0, 2, 5]))) == [texts[i] for i in (0, 2, 5)]


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


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04\x14\x00\x06", r"a spreadsheet \(.xlsx, .ods\) or a zip archive; expected UTF-8 text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old spreadsheet"),
        (gzip.compress(b"BZh91AY&SY", mtime=0), "a bzip2 file"),
        (b"%PDF-1.7\n", "a PDF"),
    ],
)
def test_a_file_that_is_no_text_is_named(write, content, kind):
    with pytest.raises(InputError, match=f"this is {kind}"):
        read_lines(write(content))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_named_too(write, encoding):
    with pytest.raises(InputError, match="every other byte is zero, as in UTF-16"):
        read_lines(write("the cat\tle chat\n".encode(encoding) * 9))
    assert len(read_lines(write("a\0b\0\n" * 99))) == 99

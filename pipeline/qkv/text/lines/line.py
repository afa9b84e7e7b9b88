"""A line of text: its end, its normal form, its tag, and its invisible characters.

`decode_line` and `compose` make text from the bytes of files and streams. `as_line` checks text from Python, pages and
other programs. No other module decodes or normalises sentences.

Invisible characters, such as U+200B, are listed here. The tokenizer leaves out invisible characters that its vocabulary
lacks.

A line may begin with a tag, such as `<back>` before a source that was translated back (Caswell et al. 2019) or `<de>`
before a source whose translation is German (Johnson et al. 2017).
"""

import codecs
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...files.paths import is_unicode

BYTE_ORDER_MARK = codecs.BOM_UTF8
GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
ZSTD = b"(\xb5/\xfd"  # the first bytes of a zstd file
EMPTY = r"[\p{Z}\p{Cc}\p{Cf}]*"
"""A regular expression that matches an empty line, for programs that know Unicode's categories; see `is_empty`."""
_PACKED = {GZIP: "gzip", ZSTD: "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


def _characters(*ranges: tuple[int, int]) -> str:
    """Returns the characters whose codes are in ranges `(first, last)`."""
    return "".join(chr(code) for first, last in ranges for code in range(first, last + 1))


FORMAT_CHARACTERS = _characters(
    *((0x00, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F)),  # controls, but for white space
    *((0xAD, 0xAD), (0x034F, 0x034F), (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD), (0x070F, 0x070F)),
    *((0x0890, 0x0891), (0x08E2, 0x08E2), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F)),
    *((0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0)),
    *((0xFFF0, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Invisible characters other than white space: Unicode's categories Cf and Cc, and its property Default_Ignorable."""
OTHER_SPACES = _characters(
    *((0x09, 0x0D), (0x1C, 0x1F), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)
"""White space by Python's `str.isspace`, except the space U+0020."""
INVISIBLE = re.compile(f"[{FORMAT_CHARACTERS}{OTHER_SPACES}]")
"""Matches one of `FORMAT_CHARACTERS` or `OTHER_SPACES`."""
_MISSING_TYPES = ("NAType", "NaTType")
_UNSEEN = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


def decode_line(line: bytes, name: str, number: int, composes: bool = True) -> str:
    """Returns the text of a line in UTF-8, without the line's end, in Unicode's normal form NFC.

    Args:
        line: the bytes of the line.
        name: the name of the text, for messages.
        number: the number of the line, from 1, for messages.
        composes: False to return the characters of the line as they are. Tags in it then keep their bytes.

    Raises:
        InputError: the line is not UTF-8.
    """
    try:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
        return compose(text) if composes else text
    except UnicodeDecodeError as error:
        raise utf8_error(line, error.start, name, number) from None


def list_sentences(sentences: Any, name: str) -> list[str]:
    """Returns the sentences that a user of the Python API has passed, as a list. A single sentence is a list of one.

    Args:
        sentences: a sentence, or a list, an array or a pandas Series of sentences.
        name: the name of the argument, for messages.

    Raises:
        InputError: `sentences` has another type, or one of the sentences is not text, such as a missing value.
    """
    if isinstance(sentences, str):
        return [sentences]
    kind = type(sentences).__name__
    expected = f"{name}: expected a sentence or a list of sentences, found"
    if isinstance(sentences, Mapping):
        raise InputError(f"{expected} a dictionary: give list(d.values()), or one value, such as d['KEY']")
    if hasattr(sentences, "columns"):
        raise InputError(f"{expected} a {kind}: give one column, such as frame['COLUMN']")
    if isinstance(sentences, set | frozenset):
        raise InputError(f"{expected} a {kind}, which has no order: give sorted(s)")
    if isinstance(sentences, bytes | bytearray):
        raise InputError(f"{expected} {kind}: give text, such as b.decode()")
    try:
        texts = list(sentences)
    except TypeError:
        raise InputError(f"{expected} {sentences!r:.60}") from None
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            is_pandas = hasattr(sentences, "dropna")
            hint = "; leave missing values out by dropna(), or make them empty by fillna('')" if is_pandas else ""
            raise InputError(f"{name}:{number}: expected text, found {text!r:.60}{hint}")
    return texts


def is_series(sentences: Any) -> bool:
    """Returns whether an argument is a Series of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(sentences, pandas.Series)


def is_missing(value: Any) -> bool:
    """Returns whether a value is a missing value of Python, NumPy or pandas: None, NaN, `pandas.NA` or `pandas.NaT`."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in _MISSING_TYPES


def as_line(text: str, location: str) -> str:
    """Returns a sentence without the line's end, in Unicode's normal form NFC.

    Args:
        text: the sentence, with or without a line's end.
        location: the location of the sentence, for messages.

    Raises:
        InputError: the sentence is not a `str`, has several lines, or has a NUL character or a lone surrogate.
    """
    if not isinstance(text, str):
        raise InputError(f"{location}: expected text, found {text!r:.60}")
    line = text.removesuffix("\n").removesuffix("\r")
    if "\n" in line:
        raise InputError(
            f"{location}: {line[:60]!r} has several lines; expected one sentence: give each line by itself"
        )
    if not is_unicode(line):
        raise InputError(f"{location}: {line[:60]!r} has half a character (a lone surrogate); expected text for UTF-8")
    if "\0" in line:
        raise InputError(
            f"{location}: character {line.index(chr(0)) + 1} is NUL (U+0000), which no text has; remove it: "
            r"tr -d '\000' < FILE > CLEANED, or in Python text.replace('\0', '')"
        )
    return compose(line)


def compose(text: str) -> str:
    """Returns a text in Unicode's normal form NFC: an accent and its letter are one character.

    macOS and PDF files write two characters, which a model that has learnt the single one does not know.
    """
    return unicodedata.normalize("NFC", text)


def is_empty(line: str) -> bool:
    """Returns whether a line has no visible character.

    Invisible are white space, control characters and format characters, such as U+200B.
    """
    # Most lines begin with a letter; this check is ten times as fast.
    return not line[:1].isalnum() and all(unicodedata.category(character) in _UNSEEN for character in line)


def visible(line: str) -> str:
    """Returns a line unchanged; the empty string if the line has no visible character, see `is_empty`."""
    return "" if is_empty(line) else line


def name_code(character: str) -> str:
    """Returns the code of a character as Unicode writes it, such as U+00AD."""
    return f"U+{ord(character):04X}"


def character_ranges(characters: Iterable[str], code: str) -> str:
    """Returns characters as ranges, to be written between `[` and `]` in a regular expression that matches them.

    Args:
        characters: the characters.
        code: the format string of a character's code in the regular expression, such as `\\x{{{:x}}}` for RE2.
    """
    codes = sorted(set(map(ord, characters)))
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"{code.format(start)}-{code.format(end)}" for start, end in zip(starts, ends, strict=True))


def words_of(text: str) -> list[str]:
    """Returns the words of a text: its parts between spaces, as in the tokenizer and in alignment files."""
    return [word for word in text.split(" ") if word]


def shorten(text: str, longest: int = 60) -> str:
    """Returns a text of at most `longest` characters; a longer text is cut and ends in an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def find_tag(line: str, tags: Collection[str]) -> str | None:
    """Returns the first word of a line if it is one of `tags`; otherwise None."""
    first = line.split(" ", 1)[0]
    return first if first in tags else None


def without_tag(line: str, tags: Collection[str]) -> str:
    """Returns a line without the tag at its beginning, if it has one, and without the space after the tag."""
    tag = find_tag(line, tags)
    return line if tag is None else line[len(tag) + 1 :]


def tagged_lines(lines: Sequence[str], tags: Iterable[str | None]) -> list[str]:
    """Returns each line with its tag and a space before it. A line whose tag is None is unchanged."""
    return [line if tag is None else f"{tag} {line}" for line, tag in zip(lines, tags, strict=True)]


def utf8_error(line: bytes, index: int, name: str, number: int, bytes_before: int | None = None) -> InputError:
    """Returns the error for a byte that is not UTF-8. Its message names the probable encoding or compression.

    Args:
        line: the line with the byte.
        index: the index of the byte in the line.
        name: the name of the text, for the message.
        number: the number of the line, from 1.
        bytes_before: the number of bytes in the text before the line. If None, the message does not have the position
            of the byte in the text.
    """
    if number == 1 and (packer := next((name for start, name in _PACKED.items() if line.startswith(start)), None)):
        return InputError(f"{name}: this is packed by {packer}; expected UTF-8 text: unpack it: {packer} -dc FILE")
    is_utf16 = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf16 else "LATIN1"
    position = "" if bytes_before is None else f" (byte {bytes_before + index + 1} of the text)"
    return InputError(
        f"{name}:{number}: byte 0x{line[index]:02x}{position} is not UTF-8, as expected; perhaps it is {encoding}; "
        f"convert the text: iconv -f {encoding} -t UTF-8 FILE > CONVERTED"
    )


def refuse_carriage_returns(line: bytes, location: str) -> None:
    """Raises an `InputError` if the lines of a text end in carriage returns without line feeds.

    If the text has a line feed, one carriage return before it is accepted: it may be part of the sentence.

    Args:
        line: the text up to the end of its first line feed; the whole text if it has no line feed.
        location: the name of the text, for the message.
    """
    if line.rstrip(b"\r\n").count(b"\r") > line.endswith(b"\n"):
        raise InputError(
            f"{location}: lines end in a carriage return alone, as on old Macs; expected line feeds: convert the text: "
            "tr '\\r' '\\n' < FILE > CONVERTED"
        )

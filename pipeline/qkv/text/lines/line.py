"""One line of text from outside: where it ends, its normal form, when it is empty, and its tag.

Bytes of files and streams become text in `decode_line` and `compose`, and text from Python, pages and other programs
passes `as_line`. Nothing else in the package decodes or normalises sentences.

Invisible characters, such as U+200B, are listed here; the tokenizer leaves out those that its vocabulary lacks.

A line may begin with a tag, such as `<back>` before sources that were translated back (Caswell et al. 2019) or `<de>`
before those whose translation is German (Johnson et al. 2017).
"""

import codecs
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...files.paths import is_unicode

BYTE_ORDER_MARK = codecs.BOM_UTF8
GZIP = b"\x1f\x8b"  # how a gzip file begins
ZSTD = b"(\xb5/\xfd"  # how a zstd file begins
EMPTY = r"[\p{Z}\p{Cc}\p{Cf}]*"
"""What an empty line consists of, as a regular expression of programs that know Unicode's categories."""
_PACKED = {GZIP: "gzip", ZSTD: "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


def _characters(*ranges: tuple[int, int]) -> str:
    return "".join(chr(code) for first, last in ranges for code in range(first, last + 1))


FORMAT_CHARACTERS = _characters(
    *((0x00, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F)),  # controls, but for white space
    *((0xAD, 0xAD), (0x034F, 0x034F), (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD), (0x070F, 0x070F)),
    *((0x0890, 0x0891), (0x08E2, 0x08E2), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F)),
    *((0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0)),
    *((0xFFF0, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Unicode's categories Cf and Cc, white space apart, and all else that is shown as nothing (Default_Ignorable)."""
OTHER_SPACES = _characters(
    *((0x09, 0x0D), (0x1C, 0x1F), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)
"""White space other than a space, as Python's `str.isspace` has it."""
INVISIBLE = re.compile(f"[{FORMAT_CHARACTERS}{OTHER_SPACES}]")
"""Matches each of them."""
_UNSEEN = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


def decode_line(line: bytes, name: str, number: int) -> str:
    """Returns the text of a line, without its end and composed.

    Raises:
        InputError: it is not UTF-8; `name` and `number`, from 1, say where.
    """
    try:
        return compose(line.removesuffix(b"\n").removesuffix(b"\r").decode())
    except UnicodeDecodeError as error:
        raise refuse_byte(line, error.start, name, number) from None


def list_sentences(sentences: Any, name: str) -> list[str]:
    """Returns sentences from Python as a list of texts: those of a list, an array or a pandas Series, or a single one.

    Raises:
        InputError: they are something else, or one of them is not text; `name`, of the argument, says where.
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
            of_pandas = hasattr(sentences, "dropna")
            hint = "; leave missing values out by dropna(), or make them empty by fillna('')" if of_pandas else ""
            raise InputError(f"{name}:{number}: expected text, found {text!r:.60}{hint}")
    return texts


def as_line(text: str, place: str) -> str:
    """Returns a sentence that is given as text, without the end of its line and composed.

    Raises:
        InputError: it has several lines, a NUL, or characters that are no text; `place` says where.
    """
    if not isinstance(text, str):
        raise InputError(f"{place}: expected text, found {text!r:.60}")
    line = text.removesuffix("\n").removesuffix("\r")
    if "\n" in line:
        raise InputError(f"{place}: {line[:60]!r} has several lines; expected one sentence: give each line by itself")
    if not is_unicode(line):
        raise InputError(f"{place}: {line[:60]!r} has half a character (a lone surrogate); expected text for UTF-8")
    if "\0" in line:
        raise InputError(
            f"{place}: character {line.index(chr(0)) + 1} is NUL (U+0000), which no text has; remove it: "
            r"tr -d '\000' < FILE > CLEANED, or in Python text.replace('\0', '')"
        )
    return compose(line)


def compose(text: str) -> str:
    """Returns a text in Unicode's normal form NFC, in which an accent and its letter are one character.

    macOS and PDF files write two, which a model that has learnt the one does not know.
    """
    return unicodedata.normalize("NFC", text)


def is_empty(line: str) -> bool:
    """Returns whether a line shows nothing: white space, control and formatting characters, such as U+200B."""
    # Most lines begin with a letter, which is told ten times as fast.
    return not line[:1].isalnum() and all(unicodedata.category(character) in _UNSEEN for character in line)


def visible(line: str) -> str:
    """Returns a line, or the empty one for each line that `is_empty`."""
    return "" if is_empty(line) else line


def name_code(character: str) -> str:
    """Returns the code of a character as Unicode writes it, such as U+00AD."""
    return f"U+{ord(character):04X}"


def class_of(characters: Iterable[str], code: str) -> str:
    """Returns characters as the ranges of a regular expression's class.

    Args:
        characters: the characters.
        code: how the expression writes a character by its code, as a format: `\\x{{{:x}}}` in RE2.
    """
    codes = sorted(set(map(ord, characters)))
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"{code.format(start)}-{code.format(end)}" for start, end in zip(starts, ends, strict=True))


def words_of(text: str) -> list[str]:
    """Splits a text into words at its spaces, as the tokenizer and alignment files do."""
    return [word for word in text.split(" ") if word]


def find_tag(line: str, tags: Collection[str]) -> str | None:
    """Returns the tag that a line begins with, as its first word; None if there is none."""
    first = line.split(" ", 1)[0]
    return first if first in tags else None


def without_tag(line: str, tags: Collection[str]) -> str:
    """Returns a line without the tag that it begins with, if any."""
    tag = find_tag(line, tags)
    return line if tag is None else line[len(tag) + 1 :]


def tagged_lines(lines: Sequence[str], tags: Iterable[str | None]) -> list[str]:
    """Returns lines with their tags, as text, before them."""
    return [line if tag is None else f"{tag} {line}" for line, tag in zip(lines, tags, strict=True)]


def refuse_byte(line: bytes, index: int, name: str, number: int, before: int | None = None) -> InputError:
    """Returns the error of a byte that is not UTF-8.

    Args:
        line: the line that has it.
        index: of the byte in the line.
        name: of what is read.
        number: of the line.
        before: how many bytes of the text stand before the line; None where that is of no use.
    """
    if number == 1 and (packer := next((name for start, name in _PACKED.items() if line.startswith(start)), None)):
        return InputError(f"{name}: this is packed by {packer}; expected UTF-8 text: unpack it: {packer} -dc FILE")
    is_utf16 = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf16 else "LATIN1"
    where = "" if before is None else f" (byte {before + index + 1} of the text)"
    return InputError(
        f"{name}:{number}: byte 0x{line[index]:02x}{where} is not UTF-8, as expected; perhaps it is {encoding}; "
        f"convert the text: iconv -f {encoding} -t UTF-8 FILE > CONVERTED"
    )


def refuse_returns(line: bytes, place: str) -> None:
    """Raises an `InputError` if the only line of a text, with its end, holds several that end in a carriage return
    alone; `place` names the text. Before a line feed at the end, a single one may be part of a sentence."""
    if line.rstrip(b"\r\n").count(b"\r") > line.endswith(b"\n"):
        raise InputError(
            f"{place}: lines end in a carriage return alone, as on old Macs; expected line feeds: convert the text: "
            "tr '\\r' '\\n' < FILE > CONVERTED"
        )

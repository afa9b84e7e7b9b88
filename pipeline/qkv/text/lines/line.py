"""One line of text from outside: where it ends, its normal form, when it is empty, and its tag.

Bytes of files and streams become text in `decode_line` and `compose`, and text from Python, pages and other programs
passes `as_line`. Nothing else in the package decodes or normalises sentences.

A line may begin with a tag, such as `<back>` before sources that were translated back (Caswell et al. 2019) or `<de>`
before those whose translation is German (Johnson et al. 2017).
"""

import codecs
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...files.paths import is_unicode

BYTE_ORDER_MARK = codecs.BOM_UTF8
GZIP = b"\x1f\x8b"  # how a gzip file begins
ZSTD = b"(\xb5/\xfd"  # how a zstd file begins
EMPTY = r"[\p{Z}\p{Cc}\p{Cf}]*"
"""What an empty line consists of, as a regular expression of programs that know Unicode's categories."""
_PACKED = {GZIP: "gzip", ZSTD: "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
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
        InputError: it has several lines, or characters that are no text; `place` says where.
    """
    if not isinstance(text, str):
        raise InputError(f"{place}: expected text, found {text!r:.60}")
    line = text.removesuffix("\n").removesuffix("\r")
    if "\n" in line:
        raise InputError(f"{place}: {line[:60]!r} has several lines; expected one sentence: give each line by itself")
    if not is_unicode(line):
        raise InputError(f"{place}: {line[:60]!r} has half a character (a lone surrogate); expected text for UTF-8")
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


def beyond_tag(change: Callable[[str], str], tags: Collection[str]) -> Callable[[str], str]:
    """Returns a function that changes a line but for the tag that it begins with, if any."""
    if not tags:
        return change

    def change_rest(line: str) -> str:
        tag = find_tag(line, tags)
        return change(line) if tag is None else f"{tag} {change(without_tag(line, tags))}"

    return change_rest


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

"""Files of text, open to be read from anywhere: as they are, or unpacked into a temporary file."""

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError
from .arrow_files import PARQUET, unpack_zstd
from .line import GZIP, ZSTD

BLOCK_BYTES = 1 << 20


class TextFile:
    """An open file that is closed when nothing refers to it any more."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read(self, first: int, last: int) -> bytes:
        self.file.seek(first)
        return self.file.read(last - first)

    def __del__(self) -> None:
        self.file.close()


def open_unpacked(path: Path) -> TextFile:
    """Opens a file; a gzipped one is unpacked and a pipe is copied, for only then can it be read from anywhere."""
    text = TextFile(path.open("rb"))
    if not text.file.seekable():
        text = _copy(text.file)
    start = text.read(0, 4)
    text.file.seek(0)
    if start == ZSTD:
        copy = temporary_text()
        copy.file.writelines(unpack_zstd(path, text.file, BLOCK_BYTES))
        return copy
    if not start.startswith(GZIP):
        return text
    with gzip.open(text.file) as content:
        return _copy(content)


def _copy(content: BinaryIO | gzip.GzipFile) -> TextFile:
    copy = temporary_text()
    shutil.copyfileobj(content, copy.file, BLOCK_BYTES)
    return copy


def temporary_text() -> TextFile:
    """Returns an empty file without a name, which is gone once its lines are."""
    return TextFile(tempfile.TemporaryFile())  # closed with its lines


_OTHER_KINDS = {  # by their first bytes
    b"PK\x03\x04": "a spreadsheet (.xlsx, .ods) or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or document (.xls, .doc)",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    PARQUET + b"\x15": "a Parquet file, which is read as a table if its name ends in .parquet",
    b"%PDF-": "a PDF",
}


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Refuses a file of another kind, and text in UTF-16.

    Args:
        path: the file.
        start: its first bytes.

    Raises:
        InputError: it is one.
    """
    kind = next((kind for signature, kind in _OTHER_KINDS.items() if start.startswith(signature)), None)
    if kind:
        raise InputError(
            f"{path}: this is {kind}; expected UTF-8 text, gzipped or not: export or unpack it, a spreadsheet as text "
            "divided by tabs"
        )
    zeros = [start[first::2].count(0) for first in (0, 1)]
    if len(start) >= 32 and max(zeros) > len(start) / 3 and not min(zeros):
        raise InputError(
            f"{path}: every other byte is zero, as in UTF-16; expected UTF-8; convert the file: "
            "iconv -f UTF-16LE -t UTF-8 FILE > CONVERTED"
        )

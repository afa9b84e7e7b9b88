"""Files of text, open to be read from anywhere: as they are, or unpacked into a temporary file."""

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from .arrow_files import ZSTD, unpack_zstd

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
    if start[:2] != b"\x1f\x8b":
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

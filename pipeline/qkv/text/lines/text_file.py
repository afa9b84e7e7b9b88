"""The lines of text files, plain or packed, read on demand, so that memory use does not grow with the file."""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from ...errors import InputError, first_line, import_optional
from ...files.arrays import ArrayStore
from ...files.paths import check_text
from .line import BYTE_ORDER_MARK, GZIP, ZSTD, compose, refuse_byte, refuse_returns

CHUNK_LINES = 4096
BLOCK_BYTES = 1 << 20
PARQUET = b"PAR1"  # how a Parquet file begins and ends
_OTHER_KINDS = {  # by their first bytes
    b"PK\x03\x04": "a spreadsheet (.xlsx, .ods) or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or document (.xls, .doc)",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    PARQUET + b"\x15": "a Parquet file, which is read as a table if its name ends in .parquet",
    b"%PDF-": "a PDF",
}


MOST_TIMES, ALWAYS_BYTES = 1000, 1 << 26
"""How many times its size a file may unpack to, about what gzip can reach, and how many bytes any file may."""


class TextFile:
    """An open file that is closed when nothing refers to it any more; by default an empty one without a name."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file = file or cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (closed in the end)

    def read(self, first: int, last: int) -> bytes:
        self.file.seek(first)
        return self.file.read(last - first)

    def __del__(self) -> None:
        self.file.close()


@dataclass(eq=False)
class Lines(Sequence[str]):
    """Lines of a file, or what is read of each, in the order of the file.

    Args:
        text: the file, UTF-8.
        starts: int64, the byte at which each line starts; of a file, in a temporary file of their own.
        ends: int64, the byte after the end of each line.
        form: what is read of each line, such as one column; by default all of it, composed.
    """

    text: TextFile
    starts: np.ndarray
    ends: np.ndarray
    form: Callable[[str], str] = compose

    def select(self, rows: np.ndarray) -> "Lines":
        """Returns the lines with these numbers, which must ascend."""
        return replace(self, starts=self.starts[rows], ends=self.ends[rows])

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), CHUNK_LINES):
            yield from self._read(slice(first, first + CHUNK_LINES))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._read(index)
        row = range(len(self))[index]
        return self._read(slice(row, row + 1))[0]

    def _read(self, index: slice) -> list[str]:
        starts, ends = self.starts[index], self.ends[index]
        if not len(starts):
            return []
        first = int(starts[0])
        data = self.text.read(first, int(ends[-1]))
        lines = (data[start - first : end - first] for start, end in zip(starts, ends, strict=True))
        return [self.form(line.decode()) for line in lines]


def read_lines(path: str | Path) -> Lines:
    r"""Opens a UTF-8 text file, plain, gzip or zstd, with or without a byte order mark, and checks all of it once.

    Only `\n` and `\r\n` end a line: characters such as U+2028 or U+0085 occur inside sentences, and splitting there
    would shift every pair that follows. The last line need not end in one. Lines are composed, see `compose`.

    Raises:
        InputError: no such file, a directory, an empty file, a damaged gzip or zstd file, a file that is no text, bytes
            that are not UTF-8, or lines that end in carriage returns alone.
    """
    path = Path(path)
    try:
        check_text(path)
        text = open_unpacked(path)
        refuse_other_kinds(path, text.read(0, 1024))
        starts, ends = _find_lines(path, text.file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not len(starts):
        raise InputError(f"{path}: the file is empty; expected UTF-8 text with one sentence or row per line")
    if len(starts) == 1:
        refuse_returns(text.read(int(starts[0]), int(ends[0]) + 2), str(path))
    return Lines(text, starts, ends)


def _find_lines(path: Path, file: BinaryIO) -> tuple[np.ndarray, np.ndarray]:
    file.seek(0)
    position = len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
    file.seek(position)
    starts, ends = ArrayStore(np.int64), ArrayStore(np.int64)
    lines = 0
    while block := file.readlines(BLOCK_BYTES):
        begins = position + np.cumsum([0, *map(len, block)], dtype=np.int64)
        for number, (line, begin) in enumerate(zip(block, begins, strict=False), lines + 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise refuse_byte(line, error.start, str(path), number, int(begin)) from None
        starts.add(begins[:-1])
        ends.add(begins[:-1] + [len(line.removesuffix(b"\n").removesuffix(b"\r")) for line in block])
        position, lines = int(begins[-1]), lines + len(block)
    return starts.finish(), ends.finish()


def lines_of(rows: Iterable[tuple[bytes, np.ndarray]]) -> Lines:
    """Keeps rows in a temporary file, given in parts: UTF-8 without line ends, and the bytes of each row."""
    text = TextFile()
    starts, ends = ArrayStore(np.int64), ArrayStore(np.int64)
    last = 0
    for content, sizes in rows:
        text.file.write(content)
        following = last + np.cumsum(sizes)
        starts.add(following - sizes)
        ends.add(following)
        last += len(content)
    return Lines(text, starts.finish(), ends.finish())


def open_unpacked(path: Path) -> TextFile:
    """Opens a file; a gzipped one is unpacked and a pipe is copied, for only then can it be read from anywhere."""
    text = TextFile(path.open("rb"))
    if not text.file.seekable():
        text = _copy(text.file)
    start = text.read(0, 4)
    text.file.seek(0)
    if start == ZSTD:
        copy = TextFile()
        copy.file.writelines(_unpack_zstd(path, text.file, BLOCK_BYTES))
        return copy
    if not start.startswith(GZIP):
        return text
    with gzip.open(text.file) as content:
        return _copy(content)


def _copy(content: BinaryIO | gzip.GzipFile) -> TextFile:
    copy = TextFile()
    shutil.copyfileobj(content, copy.file, BLOCK_BYTES)
    return copy


def _unpack_zstd(path: Path, packed: BinaryIO, block_bytes: int) -> Iterator[bytes]:
    """Yields the content of a zstd file, which is open at its beginning, in blocks; `path` names it."""
    pyarrow = import_pyarrow(path, "a zstd file")
    size = os.fstat(packed.fileno()).st_size
    unpacked = 0
    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "zstd") as content:
            while block := content.read(block_bytes):
                unpacked += len(block)
                refuse_growth(path, size, unpacked)
                yield block
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: damaged zstd file ({first_line(error)}); fetch or compress it again") from None


def import_pyarrow(path: str | Path, kind: str) -> Any:
    """Imports PyArrow for a file of the kind that is named; raises an `InputError` if it is not installed."""
    return import_optional(
        "pyarrow",
        f"{path}: {kind} is read by PyArrow, which is not installed; install it: pip install pyarrow (or qkv with its "
        "extra, corpora), or convert the file to text, plain or gzip",
    )


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Raises an `InputError` if a file is of another kind by its first bytes, or text in UTF-16."""
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


def refuse_growth(path: Path, size: int, unpacked: int) -> None:
    """Raises an `InputError` if a file of this size unpacks to far more than text does, as a few bytes can."""
    if unpacked > max(ALWAYS_BYTES, MOST_TIMES * size):
        raise InputError(
            f"{path}: {size:,} bytes that unpack to {unpacked:,} or more; expected text, which packs to no less than a "
            "thousandth of its size: check where the file is from, or give its text unpacked"
        )

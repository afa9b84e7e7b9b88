"""The lines of text files, plain or compressed. They are read on demand, so memory use does not grow with the file."""

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
from .line import BYTE_ORDER_MARK, GZIP, ZSTD, compose, refuse_carriage_returns, utf8_error

CHUNK_LINES = 4096  # the number of lines that an iteration reads at a time
BLOCK_BYTES = 1 << 20  # the number of bytes that are copied or searched for lines at a time
PARQUET_MAGIC = b"PAR1"  # the first bytes of a Parquet file, and its last ones
_OTHER_KINDS = {  # of files, by their first bytes
    b"PK\x03\x04": "a spreadsheet (.xlsx, .ods) or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or document (.xls, .doc)",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    PARQUET_MAGIC + b"\x15": "a Parquet file, which is read as a table if its name ends in .parquet",
    b"%PDF-": "a PDF",
}


MOST_TIMES = 1000
"""The maximum ratio of unpacked bytes to packed bytes; gzip can reach about this ratio."""

ALWAYS_BYTES = 1 << 26
"""The number of bytes that every file may unpack to, whatever its size."""


class TextFile:
    """An open file that is closed when the last reference to this object is deleted.

    Args:
        file: the file. None opens an empty temporary file.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file = file or cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (closed in the end)

    def read(self, first: int, last: int) -> bytes:
        """Returns the bytes from position `first` to before `last`."""
        self.file.seek(first)
        return self.file.read(last - first)

    def __del__(self) -> None:
        self.file.close()


@dataclass(eq=False)
class Lines(Sequence[str]):
    """A sequence of lines of a file, or of a part of each line, in the order of the file.

    Args:
        text: the file, in UTF-8.
        starts: the position of the first byte of each line, int64 `(lines,)`. It may be mapped from a temporary file.
        ends: the position after the last byte of each line, without the line's end, int64 `(lines,)`.
        form: a function that returns the text to read from a line, such as one of its columns. By default it is the
            whole line, in Unicode's normal form NFC.
    """

    text: TextFile
    starts: np.ndarray
    ends: np.ndarray
    form: Callable[[str], str] = compose

    def select(self, rows: np.ndarray) -> "Lines":
        """Returns the lines with the numbers `rows`, from 0: int `(lines,)` in ascending order."""
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
        """Returns the text of a slice of the lines, in one read of the file."""
        starts, ends = self.starts[index], self.ends[index]
        if not len(starts):
            return []
        first = int(starts[0])
        data = self.text.read(first, int(ends[-1]))
        lines = (data[start - first : end - first] for start, end in zip(starts, ends, strict=True))
        return [self.form(line.decode()) for line in lines]


def read_lines(path: str | Path) -> Lines:
    r"""Opens a UTF-8 text file, plain, gzip or zstd, with or without a byte order mark, and checks the whole file once.

    Only `\n` and `\r\n` end a line. Characters such as U+2028 or U+0085 occur inside sentences, and a split there would
    shift all pairs after it. The last line need not have an end.

    Returns:
        The lines, in Unicode's normal form NFC.

    Raises:
        InputError: there is no such file, it is a folder, it is empty, it is a damaged gzip or zstd file or not a text
            file, it is not UTF-8, its lines end in carriage returns only, or it is a zstd file that unpacks to far more
            bytes than text does.
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
        refuse_carriage_returns(text.read(int(starts[0]), int(ends[0]) + 2), str(path))
    return Lines(text, starts, ends)


def _find_lines(path: Path, file: BinaryIO) -> tuple[np.ndarray, np.ndarray]:
    """Returns the start and the end of each line, see `Lines`. Raises an `InputError` if a line is not UTF-8."""
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
                raise utf8_error(line, error.start, str(path), number, int(begin)) from None
        starts.add(begins[:-1])
        ends.add(begins[:-1] + [len(line.removesuffix(b"\n").removesuffix(b"\r")) for line in block])
        position = int(begins[-1])
        lines += len(block)
    return starts.finish(), ends.finish()


def lines_of(rows: Iterable[tuple[bytes, np.ndarray]]) -> Lines:
    """Writes rows of text into a temporary file, and returns them as lines.

    Args:
        rows: some rows at a time, as `(content, sizes)`. The content is the text of these rows in UTF-8, one row after
            the other, without line ends. The sizes are the number of bytes of each row, int `(rows,)`.
    """
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
    """Opens a file so that it can be read at any position.

    A gzip or zstd file is unpacked into a temporary file, and a pipe is copied into one.

    Raises:
        InputError: a zstd file is damaged or unpacks to far more bytes than text does, or PyArrow is not installed.
        OSError: the file cannot be read.
        gzip.BadGzipFile, EOFError or zlib.error: a gzip file is damaged.
    """
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
    """Returns a temporary file with the content that remains to be read."""
    copy = TextFile()
    shutil.copyfileobj(content, copy.file, BLOCK_BYTES)
    return copy


def _unpack_zstd(path: Path, packed: BinaryIO, block_bytes: int) -> Iterator[bytes]:
    """Yields the unpacked content of a zstd file in blocks.

    Args:
        path: the path of the file, for messages.
        packed: the file, open at its beginning.
        block_bytes: the maximum size of a block.

    Raises:
        InputError: the file is damaged or unpacks to far more bytes than text does, or PyArrow is not installed.
    """
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
    """Returns the module `pyarrow`; raises an `InputError` if it is not installed.

    Args:
        path: the file to read, for the message.
        kind: the kind of the file, for the message, such as `a zstd file`.
    """
    return import_optional(
        "pyarrow",
        f"{path}: {kind} is read by PyArrow, which is not installed; install it: pip install pyarrow (or qkv with its "
        "extra, corpora), or convert the file to text, plain or gzip",
    )


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Raises an `InputError` if a file begins like a known kind other than text, such as a PDF, or like UTF-16.

    Args:
        path: the file, for the message.
        start: the first bytes of the file; some hundred are enough.
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


def refuse_growth(path: Path, size: int, unpacked: int) -> None:
    """Raises an `InputError` if a compressed file unpacks to far more bytes than text does.

    Args:
        path: the file.
        size: the size of the file in bytes.
        unpacked: the number of bytes that it has unpacked to.
    """
    if unpacked > max(ALWAYS_BYTES, MOST_TIMES * size):
        raise InputError(
            f"{path}: {size:,} bytes that unpack to {unpacked:,} or more; expected text, which packs to no less than a "
            "thousandth of its size: check where the file is from, or give its text unpacked"
        )

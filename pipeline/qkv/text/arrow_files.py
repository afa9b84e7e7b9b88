"""What PyArrow reads: Parquet files and zstd. It is needed for these files alone, and so not always installed."""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import InputError

PARQUET = b"PAR1"
"""How a Parquet file begins and ends."""
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 24
"""How many rows are unpacked at a time, and about how many bytes at most."""
MOST_TIMES, ALWAYS_BYTES = 1000, 1 << 26
"""How many times its size a file may unpack to, about what gzip can reach, and how many bytes any file may."""


def import_pyarrow(path: str | Path, kind: str) -> Any:
    """Imports PyArrow.

    Args:
        path: the file that needs it.
        kind: what that file is, for the message.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module("pyarrow")
    except ImportError:
        raise InputError(
            f"{path}: {kind} is read by PyArrow, which is not installed; install it: pip install pyarrow (or qkv with "
            "its extra, corpora), or convert the file to text, plain or gzip"
        ) from None


def unpack_zstd(path: Path, packed: BinaryIO, block_bytes: int) -> Iterator[bytes]:
    """Yields the content of a zstd file.

    Args:
        path: the file, for messages.
        packed: the same, open at its beginning.
        block_bytes: how much is yielded at a time, at most.

    Raises:
        InputError: it is damaged or cut off, unpacks to far more than text does, or PyArrow is not installed.
    """
    pyarrow = import_pyarrow(path, "a zstd file")
    size, unpacked = os.fstat(packed.fileno()).st_size, 0
    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "zstd") as content:
            while block := content.read(block_bytes):
                unpacked += len(block)
                _refuse_growth(path, size, unpacked)
                yield block
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: damaged zstd file ({_first_line(error)}); fetch or compress it again") from None


class ParquetTable:
    """A Parquet file whose columns of text are read in turn.

    Args:
        path: the file.

    Raises:
        InputError: it is missing, damaged or no Parquet file, or PyArrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pyarrow = pyarrow = import_pyarrow(path, "a Parquet file")
        try:
            self._file = self._open()
            self._size = path.stat().st_size
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}") from None
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path}: not a Parquet file, or a damaged one ({_first_line(error)})") from None
        columns = list(_columns(self._file.schema_arrow))
        self._types = dict(columns)
        self.names = [column for column, _ in columns]
        self.rows: int = self._file.metadata.num_rows

    def find_column(self, wanted: str | int) -> str:
        """Returns the name of a column, named or numbered from 0; a column within another is named `outer.inner`.

        Raises:
            InputError: there is none, or there are several.
        """
        numbers = f", numbered from 0 to {len(self.names) - 1}" if isinstance(wanted, int) else ""
        if wanted not in (range(len(self.names)) if isinstance(wanted, int) else self.names):
            raise InputError(f"{self._path}: no column {wanted!r}; there are {', '.join(self.names)}{numbers}")
        name = self.names[wanted] if isinstance(wanted, int) else wanted
        if self.names.count(name) > 1:
            raise InputError(f"{self._path}: {self.names.count(name)} columns are named {name!r}; rename all but one")
        return name

    def read_column(self, name: str) -> Iterator[tuple[bytes, np.ndarray]]:
        """Yields the rows of a column of text, some thousand at a time: their bytes in UTF-8, and how many bytes each
        has. Line ends within a row become spaces, and what is null is empty.

        Raises:
            InputError: the column has no text, the file is damaged, or it unpacks to far more than text does.
        """
        pyarrow: Any = self._pyarrow
        compute = import_module("pyarrow.compute")
        kind: Any = self._types[name]
        is_dictionary = pyarrow.types.is_dictionary(kind)
        if not _is_text(pyarrow, kind.value_type if is_dictionary else kind):
            raise InputError(f"{self._path}: column {name!r} holds {kind}; expected text")
        unpacked = 0
        try:
            for column in self._batches(name):
                if is_dictionary:
                    column = column.dictionary_decode()
                text = compute.fill_null(column.cast(pyarrow.large_string()), "")
                text = compute.replace_substring_regex(text, r"\r?\n|\r", " ")
                text.validate(full=True)
                _, offsets, data = text.buffers()
                ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
                unpacked += len(text) + int(ends[-1] - ends[0])
                _refuse_growth(self._path, self._size, unpacked)
                yield (data.to_pybytes() if data else b"")[ends[0] : ends[-1]], np.diff(ends)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{self._path}: damaged Parquet file ({_first_line(error)}); fetch it again") from None

    def _open(self, **options: Any) -> Any:
        return import_module("pyarrow.parquet").ParquetFile(self._path, **options)

    def _batches(self, name: str) -> Iterator[Any]:
        """Yields a column, so few rows at a time that they are about `BATCH_BYTES`."""
        found = self._file.metadata
        place = next(place for place in range(found.num_columns) if found.schema.column(place).path == name)
        dictionaries = self._open(metadata=found, read_dictionary=[name])
        for group in range(found.num_row_groups):
            # By its place, since pyarrow takes `en` for `en.1` too.
            chunk, only = found.row_group(group).column(place), {"row_groups": [group], "column_indices": [place]}
            _refuse_growth(self._path, self._size, chunk.total_uncompressed_size)
            longest = chunk.total_uncompressed_size // max(1, found.row_group(group).num_rows)
            if chunk.has_dictionary_page:  # a long text that stands in the file once may be that of every row
                if (first := next(dictionaries.reader.iter_batches(1, **only), None)) is None:
                    continue
                lengths = import_module("pyarrow.compute").binary_length(_only_column(first).dictionary)
                longest = max(longest, *lengths.to_pylist(), 0)
            rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, longest)))
            yield from map(_only_column, self._file.reader.iter_batches(rows, **only))


def _columns(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the names and types of all columns that hold no further columns."""
    for field in fields:
        if type(field.type).__name__ == "StructType":
            yield from _columns(field.type.fields, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", field.type


def _refuse_growth(path: Path, size: int, unpacked: int) -> None:
    """Refuses a few bytes that hold gigabytes.

    Raises:
        InputError: that many bytes were unpacked from a file of this size.
    """
    if unpacked > max(ALWAYS_BYTES, MOST_TIMES * size):
        raise InputError(
            f"{path}: {size:,} bytes that unpack to {unpacked:,} or more; expected text, which packs to no less than a "
            "thousandth of its size: check where the file is from, or give its text unpacked"
        )


def _only_column(batch: Any) -> Any:
    """Returns the column of a batch with one, which may be within others."""
    column = batch.column(0)
    while type(column.type).__name__ == "StructType":
        column = column.field(0)
    return column


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__

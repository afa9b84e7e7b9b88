"""What PyArrow reads: Parquet files and zstd. It is needed for these files alone, and so not always installed."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import InputError

ZSTD = b"(\xb5/\xfd"
"""How a zstd file begins."""
PARQUET = b"PAR1"
"""How a Parquet file begins and ends."""
BATCH_ROWS = 65_536


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
        InputError: it is damaged or cut off, or PyArrow is not installed.
    """
    pyarrow = import_pyarrow(path, "a zstd file")
    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "zstd") as content:
            while block := content.read(block_bytes):
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
            self._file = import_module("pyarrow.parquet").ParquetFile(path)
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}") from None
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path}: not a Parquet file, or a damaged one ({_first_line(error)})") from None
        self.names = list(_names(self._file.schema_arrow))
        self.rows: int = self._file.metadata.num_rows

    def find_column(self, wanted: str | int) -> str:
        """Returns the name of a column, named or numbered from 0; a column within another is named `outer.inner`.

        Raises:
            InputError: there is none.
        """
        if isinstance(wanted, str):
            if wanted in self.names:
                return wanted
            raise InputError(f"{self._path}: no column {wanted!r}; there are {', '.join(self.names)}")
        if wanted < len(self.names):
            return self.names[wanted]
        raise InputError(
            f"{self._path}: no column {wanted}; there are {', '.join(self.names)}, numbered from 0 to "
            f"{len(self.names) - 1}"
        )

    def read_column(self, name: str) -> Iterator[tuple[bytes, np.ndarray]]:
        """Yields the rows of a column of text, some thousand at a time: their bytes in UTF-8, and how many bytes each
        has. Line ends within a row become spaces, and what is null is empty.

        Raises:
            InputError: the column has no text, or the file is damaged.
        """
        pyarrow: Any = self._pyarrow
        compute = import_module("pyarrow.compute")
        try:
            for batch in self._file.iter_batches(BATCH_ROWS, columns=[name]):
                column: Any = batch.column(0)
                for inner in name.split(".")[1:] if pyarrow.types.is_struct(column.type) else ():
                    column = column.field(inner)
                if pyarrow.types.is_dictionary(column.type):
                    column = column.dictionary_decode()
                if not _is_text(pyarrow, column.type):
                    raise InputError(f"{self._path}: column {name!r} holds {column.type}; expected text")
                text = compute.fill_null(column.cast(pyarrow.large_string()), "")
                text = compute.replace_substring_regex(text, r"\r?\n|\r", " ")
                text.validate(full=True)
                _, offsets, data = text.buffers()
                ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
                yield (data.to_pybytes() if data else b"")[ends[0] : ends[-1]], np.diff(ends)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{self._path}: damaged Parquet file ({_first_line(error)}); fetch it again") from None


def _names(fields: Any, prefix: str = "") -> Iterator[str]:
    """Yields the names of all columns that hold no further columns."""
    for field in fields:
        if type(field.type).__name__ == "StructType":
            yield from _names(field.type.fields, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__

"""NumPy files from others, in which what a file claims is compared with what it holds before memory is taken; and
arrays that grow part by part in a temporary file, so that memory stays flat however many parts there are."""

import math
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import numpy.typing as npt

LARGEST_GAIN = 20  # numbers hardly shrink when compressed; a file that grows more than this is an attack


def open_zip(path: Path) -> ZipFile:
    """Opens a zip file whose members are plain or deflated, and do not unpack to far more than the file's size.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: it is missing, damaged, or another file.
    """
    if path.exists() and not path.is_file():  # opening a FIFO would wait for a writer
        raise ValueError("not a file")
    with ExitStack() as opened:
        archive = opened.enter_context(ZipFile(path))
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > LARGEST_GAIN * path.stat().st_size:
            raise ValueError(f"it would unpack to {unpacked:,} bytes")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it has two members of one name")
        if not {member.compress_type for member in members} <= {ZIP_STORED, ZIP_DEFLATED}:
            raise ValueError("a member is compressed in another way")  # zipfile sets no limit to what others unpack to
        opened.pop_all()
    return archive


class ArrayFile(AbstractContextManager):
    """An `.npz` file that is open for reading.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: as for `open_zip`.
    """

    def __init__(self, path: Path) -> None:
        self._archive = open_zip(path)
        self.names = [member.removesuffix(".npy") for member in self._archive.namelist()]

    def read(self, name: str, kinds: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Reads an array.

        Args:
            name: its name.
            kinds: the kinds of numbers that it may have, such as `f`; see `numpy.dtype.kind`.
            shape: its shape, where that is known.

        Raises:
            OSError, ValueError, KeyError, zipfile.BadZipFile: it is missing or damaged, or of another kind or shape.
        """
        member = self._archive.getinfo(f"{name}.npy")
        with self._archive.open(member) as file:
            found, dtype = check_header(file, name, member.file_size)
            if dtype.kind not in kinds:
                raise ValueError(f"{name} is of type {dtype}, expected {' or '.join(_KINDS[kind] for kind in kinds)}")
            if shape not in (None, found):
                raise ValueError(f"{name} is of shape {found}, expected {shape}")
        with self._archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def close(self) -> None:
        """Closes the file."""
        self._archive.close()

    def __exit__(self, *error: object) -> None:
        self.close()


_KINDS = {"f": "floating-point numbers", "i": "integers", "u": "unsigned integers", "b": "truth values", "U": "text"}


def check_header(file: IO[bytes], name: str, size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Reads the header of an array in NumPy's format, of so many bytes with it, and returns its shape and type.

    Raises:
        ValueError: the header is damaged, or claims another number of bytes than there are; `name` names the array.
    """
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(file)
    except (MemoryError, RecursionError, SyntaxError):  # NumPy parses the header as an expression
        raise ValueError(f"{name} has a damaged header") from None
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"{name} says that it is of shape {shape}, and has {size:,} bytes")
    return shape, dtype


def map_array(path: Path, *dtypes: type[np.generic]) -> np.ndarray:
    """Maps a row of numbers of one of these types that was written by `numpy.save`, without reading it.

    Raises:
        OSError, ValueError: it is missing or damaged, or of another type or shape.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    with path.open("rb") as file:
        shape, found = check_header(file, path.name, path.stat().st_size)
    if found not in dtypes or len(shape) != 1:
        expected = " or ".join(dtype.__name__ for dtype in dtypes)
        raise ValueError(f"{path.name}: expected a row of {expected}, found {found} of shape {shape}")
    return np.lib.format.open_memmap(path, mode="r")


MEMORY_BYTES = 1 << 20  # what is kept in memory before it is written


class ArrayStore:
    """Parts of a flat array, in a temporary file that is gone when nothing refers to it any more."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 (closed in the end)

    def add(self, part: npt.ArrayLike) -> None:
        """Adds numbers at the end; raises an `OSError` if the disk is full."""
        try:
            self._file.write(np.asarray(part, self._dtype).tobytes())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None

    def finish(self) -> np.ndarray:
        """Returns all numbers, mapped if they are many; nothing can be added after that."""
        if self._file.tell() > MEMORY_BYTES:
            with self._file:
                return np.memmap(self._file, self._dtype, "r").view(np.ndarray)
        self._file.seek(0)
        return np.frombuffer(self._file.read(), self._dtype).copy()

    def __del__(self) -> None:
        self._file.close()

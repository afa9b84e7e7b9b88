"""Reads untrusted NumPy files: checks each header against the size of the data before it allocates memory.

Also collects a long array part by part in a temporary file, with a constant amount of memory.
"""

import math
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import numpy.typing as npt

LARGEST_RATIO = 20  # of unpacked to packed size; numbers hardly shrink when compressed, so more than this is an attack


def open_zip(path: Path) -> ZipFile:
    """Opens a zip file for reading, and checks that it can be unpacked safely.

    Returns:
        The open zip file. The caller closes it.

    Raises:
        OSError: the file is missing or cannot be read.
        zipfile.BadZipFile: the file is damaged, or is not a zip file.
        ValueError: the path is not a file, or the members would unpack to more than `LARGEST_RATIO` times the file's
            size, or two members have the same name, or a member is compressed by a method other than deflate.
    """
    if path.exists() and not path.is_file():  # opening a FIFO would wait for a writer
        raise ValueError("not a file")
    with ExitStack() as opened:
        archive = opened.enter_context(ZipFile(path))
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > LARGEST_RATIO * path.stat().st_size:
            raise ValueError(f"it would unpack to {unpacked:,} bytes")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it has two members of one name")
        if not {member.compress_type for member in members} <= {ZIP_STORED, ZIP_DEFLATED}:
            raise ValueError("a member is compressed in another way")  # zipfile sets no limit to what others unpack to
        opened.pop_all()
    return archive


class ArrayFile(AbstractContextManager):
    """An `.npz` file that is open for reading. Use it in a `with` statement, which closes it.

    Args:
        path: the file.

    Attributes:
        names: the names of the arrays in the file.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: the file cannot be opened safely, see `open_zip`.
    """

    def __init__(self, path: Path) -> None:
        self._archive = open_zip(path)
        self.names = [member.removesuffix(".npy") for member in self._archive.namelist()]

    def read(self, name: str, kinds: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Reads an array of the file.

        Args:
            name: the name of the array.
            kinds: the allowed kinds of its elements, one letter each as in `numpy.dtype.kind`, such as `f` or `iu`.
            shape: the expected shape; None allows any shape.

        Returns:
            The array.

        Raises:
            KeyError: the file has no array of this name.
            ValueError: the array is damaged, or has another kind of elements or another shape.
            OSError, zipfile.BadZipFile: the file cannot be read, or its data is damaged.
        """
        member = self._archive.getinfo(f"{name}.npy")
        with self._archive.open(member) as file:
            actual_shape, dtype = check_header(file, name, member.file_size)
            if dtype.kind not in kinds:
                raise ValueError(f"{name} is of type {dtype}, expected {' or '.join(_KINDS[kind] for kind in kinds)}")
            if shape not in (None, actual_shape):
                raise ValueError(f"{name} is of shape {actual_shape}, expected {shape}")
        with self._archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def close(self) -> None:
        """Closes the file."""
        self._archive.close()

    def __exit__(self, *error: object) -> None:
        self.close()


_KINDS = {"f": "floating-point numbers", "i": "integers", "u": "unsigned integers", "b": "truth values", "U": "text"}


def check_header(file: IO[bytes], name: str, size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Reads the header of an array in NumPy's `.npy` format, and compares it with the number of bytes.

    Args:
        file: an open file, at the beginning of the array.
        name: the name of the array, for messages.
        size: the number of bytes of the header and the data together.

    Returns:
        The shape and the dtype of the array. `file` is then at the beginning of the data.

    Raises:
        ValueError: the header is damaged, or the size of its shape and dtype is not the size of the data.
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
    """Memory-maps a one-dimensional array, so that its data is read from the file only when it is used.

    Args:
        path: the `.npy` file, as written by `numpy.save`.
        dtypes: the allowed types of its elements.

    Returns:
        The array, read-only.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is missing or damaged, or has more than one axis or a type that is not allowed.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    with path.open("rb") as file:
        shape, dtype = check_header(file, path.name, path.stat().st_size)
    if dtype not in dtypes or len(shape) != 1:
        expected = " or ".join(allowed.__name__ for allowed in dtypes)
        raise ValueError(f"{path.name}: expected an array of {expected} with one axis, found {dtype} of shape {shape}")
    return np.lib.format.open_memmap(path, mode="r")


MEMORY_BYTES = 1 << 20
"""The number of bytes up to which `ArrayStore` stays in memory."""


class ArrayStore:
    """A one-dimensional array that is collected part by part.

    An array of more than `MEMORY_BYTES` is stored in a temporary file. The file is deleted once neither the store nor
    the array of `finish` is in use.

    Args:
        dtype: the type of the elements.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 (closed in `finish` or `__del__`)

    def add(self, part: npt.ArrayLike) -> None:
        """Appends the elements of `part`, converted to the dtype of the store.

        Raises:
            OSError: the temporary file cannot be written; the error names the folder for temporary files.
        """
        try:
            self._file.write(np.asarray(part, self._dtype).tobytes())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None

    def finish(self) -> np.ndarray:
        """Returns the whole array: mapped read-only from the temporary file, or in memory if it is small.

        Call it once; no elements can be added afterwards.
        """
        if self._file.tell() > MEMORY_BYTES:
            with self._file:
                return np.memmap(self._file, self._dtype, "r").view(np.ndarray)
        self._file.seek(0)
        return np.frombuffer(self._file.read(), self._dtype).copy()

    def __del__(self) -> None:
        self._file.close()

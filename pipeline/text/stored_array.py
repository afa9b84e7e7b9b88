"""Arrays that grow part by part in a temporary file, so that memory stays flat however many parts there are."""

import tempfile
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

MEMORY_BYTES = 1 << 20
"""What is kept in memory before it is written."""


class ArrayStore:
    """Parts of a flat array, in a temporary file that is gone when nothing refers to it any more.

    Args:
        dtype: of the numbers.
        memory_bytes: what is kept in memory before it is written; `MEMORY_BYTES` by default.
    """

    def __init__(self, dtype: npt.DTypeLike, memory_bytes: int | None = None) -> None:
        self._memory_bytes = MEMORY_BYTES if memory_bytes is None else memory_bytes
        self._dtype = np.dtype(dtype)
        self._file: BinaryIO | None = None
        self._held: list[np.ndarray] = []
        self._held_bytes = 0

    def add(self, part: npt.ArrayLike) -> None:
        """Adds numbers at the end.

        Raises:
            OSError: the disk is full.
        """
        numbers = np.array(part, self._dtype)
        self._held.append(numbers)
        self._held_bytes += numbers.nbytes
        if self._held_bytes > self._memory_bytes:
            self._write()

    def finish(self) -> np.ndarray:
        """Returns all numbers, mapped if they are many; nothing can be added after that."""
        if self._file is None:
            return np.concatenate([np.zeros(0, self._dtype), *self._held])
        self._write()
        with self._file:
            return np.memmap(self._file, self._dtype, "r").view(np.ndarray)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed in the end)
            for numbers in self._held:
                self._file.write(numbers.tobytes())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        self._held, self._held_bytes = [], 0

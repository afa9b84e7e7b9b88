"""The format of safetensors: a header of JSON, then the numbers of all arrays.

Everything that the header claims is compared with the file before memory is taken for it.
"""

import math
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from ..json_file import parse_json

LONGEST_HEADER = 1 << 24  # bytes; that of a model of a thousand arrays has a hundred thousand
MOST_ARRAYS = 20_000
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class SafetensorsFile:
    """A file whose arrays are read one by one, as float32.

    Args:
        path: the file.

    Attributes:
        shapes: that of each array, by name.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or another file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(LONGEST_HEADER, size - 8):
                raise ValueError("no safetensors file, or truncated")
            header = parse_json(file.read(length).decode())
        if not isinstance(header, dict) or len(header) > MOST_ARRAYS:
            raise ValueError("the header is no list of arrays")
        self._start = 8 + length
        header.pop("__metadata__", None)
        self._arrays = {name: _check(name, entry, size - self._start) for name, entry in header.items()}
        self.shapes = {name: shape for name, (_, shape, _) in self._arrays.items()}

    def read(self, name: str) -> np.ndarray:
        """Reads an array."""
        kind, shape, start = self._arrays[name]
        count = math.prod(shape)
        array = np.fromfile(self._path, _TYPES[kind], count, offset=self._start + start)
        if len(array) < count:
            raise ValueError(f"{name[:80]}: truncated")
        if kind == "BF16":  # the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        return array.astype("float32", copy=False).reshape(shape)


def _check(name: str, entry: Any, size: int) -> tuple[str, tuple[int, ...], int]:
    """Returns type, shape and first byte of an array."""
    if not isinstance(entry, dict):
        raise ValueError(f"{name[:80]}: the header does not describe it")
    kind, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not (_are_counts(shape) and _are_counts(place) and len(place) == 2):
        raise ValueError(f"{name[:80]}: the header gives it no shape or no place")
    if kind not in _TYPES:
        raise ValueError(f"{name[:80]}: expected numbers of type {', '.join(_TYPES)}, found {str(kind)[:20]}")
    start, end = place
    if not start <= end <= size or end - start != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize:
        raise ValueError(f"{name[:80]}: the header says that it is of shape {shape}, and it has {end - start:,} bytes")
    return kind, tuple(shape), start


def _are_counts(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and len(values) <= 8 and all(type(x) is int and 0 <= x < 1 << 62 for x in values)

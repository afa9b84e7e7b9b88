"""JSON files: written whole, and read so that whatever is wrong is one kind of error and their size is bounded."""

import json
import re
from pathlib import Path
from typing import Any

from .atomic import write_atomically

LARGEST = 1 << 29  # bytes; the report on a corpus of a hundred million pairs has fewer
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> Any:
    """Parses JSON; raises a `ValueError` if it is none, nests too deeply, or has half a character."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a file of JSON that is an object.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file, larger than `LARGEST`, not UTF-8, something else, or as for `parse_json`.
    """
    size = path.stat().st_size
    if not path.is_file() or size > LARGEST:
        raise ValueError(f"expected a file of at most {LARGEST:,} bytes, found {size:,}")
    value = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    return value


def read_json_if_whole(path: Path) -> dict[str, Any]:
    """Reads a JSON object; an empty one if the file is missing or damaged.

    Raises:
        PermissionError: it may not be read, so that nobody knows whether it is whole.
    """
    try:
        return read_json_object(path)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())

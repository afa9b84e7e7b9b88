"""Writes JSON files atomically, and reads JSON from others. Every mistake in the text raises a `ValueError`."""

import json
import re
from pathlib import Path
from typing import Any

from .atomic import write_atomically

LARGEST_JSON_BYTES = 1 << 29  # the report on a corpus of a hundred million pairs has fewer
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> Any:
    """Parses JSON.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or has a lone surrogate.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    if _SURROGATE.search(text):  # of a pair, or a lone one, which cannot be encoded
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON file with an object, and returns it as a dict.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: the path is not a file, or the file is larger than `LARGEST_JSON_BYTES`, is not UTF-8, is not JSON
            (see `parse_json`), or has a value other than an object.
    """
    size = path.stat().st_size
    if not path.is_file() or size > LARGEST_JSON_BYTES:
        raise ValueError(f"expected a file of at most {LARGEST_JSON_BYTES:,} bytes, found {size:,}")
    value = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    return value


def read_json_if_whole(path: Path) -> dict[str, Any]:
    """Reads a JSON file with an object; returns an empty dict if `read_json_object` cannot read it.

    Raises:
        PermissionError: the user may not read the file.
    """
    try:
        return read_json_object(path)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON; an existing file is replaced as by `files.atomic.replaced_when_done`."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())

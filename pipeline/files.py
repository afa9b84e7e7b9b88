"""Files that appear whole or not at all, JSON, and SHA-256 digests."""

import glob
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}(\.[^.]*)?")  # as `tempfile` names what `replaced_when_done` yields


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, with the same suffix, which replaces `path` if the block succeeds.

    A crash at any moment leaves either the old file or the new one, never a part of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def delete_temporary_files(path: Path) -> None:
    """Deletes what killed processes left of `path`, a file, or of the files in it, a folder; nobody may write there."""
    beside = path.parent.glob(f".{glob.escape(path.stem)}.*{glob.escape(path.suffix)}")
    for found in [*beside, *path.rglob(".*")]:
        if _TEMPORARY.fullmatch(found.name) and found.is_file():
            found.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with replaced_when_done(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def sha256(path: Path) -> str:
    """Returns the SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

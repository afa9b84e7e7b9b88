"""Files that appear whole or not at all, JSON, SHA-256 digests, and patterns of file names."""

import glob
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError

LONGEST_NAME = 200
"""The longest name of a folder or file to write, in bytes: most systems take 255, and temporary names are longer."""

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
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)  # a full disk names no file
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


def refuse_other_than_file(path: Path, wanted: str, pipes: bool = False) -> None:
    """Refuses what a reader could wait for or read without end: devices, sockets, and pipes with a name.

    Readers of files call it before they open one. What is missing, and folders, are left to them.

    Args:
        path: what is to be read.
        wanted: what it should be, in words.
        pipes: whether a pipe that is open already will do, such as a shell's `<(command)`.

    Raises:
        InputError: it is something else.
        OSError: it cannot be looked at, other than because it is missing.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except ValueError:  # a name that no system takes
        raise InputError(f"{str(path)!r}: no file can have this name; expected {wanted}") from None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path == Path(os.devnull):
        return
    is_open = path.is_relative_to("/dev") or path.is_relative_to("/proc")
    if not (stat.S_ISFIFO(mode) and is_open and pipes):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or the like"
        raise InputError(f"{path}: this is {kind}, not a file; expected {wanted}: write its text to a file first")


def is_pattern(path: Path) -> bool:
    """Returns whether a path stands for the files that match it; a file of that very name is meant itself."""
    return glob.has_magic(str(path)) and not path.exists()


def files_like(path: Path) -> list[Path]:
    """Returns what matches a pattern, in any order."""
    return list(map(Path, glob.glob(str(path))))  # noqa: PTH207 (a pattern may be absolute)


def matching_files(path: Path) -> list[Path]:
    """Returns the files that a path stands for, in sorted order: itself, or those that match it.

    Raises:
        InputError: none matches.
    """
    if not is_pattern(path):
        return [path]
    found = sorted(file for file in files_like(path) if not file.is_dir())
    if not found:
        raise InputError(
            f"{path}: no file matches this pattern; check the path, which starts at {Path.cwd()}; * stands for any "
            "characters, ? for one, [abc] for one of them"
        )
    return found


def match_files(paths: Mapping[str, Path]) -> list[dict[str, Path]]:
    """Returns the files that belong together: the first of each path, the second of each, and so on.

    Args:
        paths: what is read together, by its name in the config; patterns or files.

    Raises:
        InputError: the paths stand for different numbers of files, or for none.
    """
    found = {name: matching_files(path) for name, path in paths.items()}
    if len({len(files) for files in found.values()}) > 1:
        counts = " and ".join(
            f"{paths[name]} ({name}) stands for {len(files)} file{'s' if len(files) > 1 else ''}"
            for name, files in found.items()
        )
        raise InputError(
            f"{counts}; expected as many of each, matched in sorted order; look for one that is missing, or narrow the "
            "pattern"
        )
    return [dict(zip(found, files, strict=True)) for files in zip(*found.values(), strict=True)]


def name_problem(name: str) -> str | None:
    """Returns what is wrong with the name of a folder or file that is to be written, or None."""
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        return f"expected the name of a folder, without slashes or a dot in front, found {name!r}"
    if not is_unicode(name):
        return f"expected the name of a folder, in UTF-8, found {name!r}"
    if len(name.encode()) > LONGEST_NAME:
        return f"expected the name of a folder, of at most {LONGEST_NAME} bytes, found {len(name.encode())}"
    return None


def is_unicode(text: str) -> bool:
    """Returns whether text can be written as UTF-8; bytes of a file name that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

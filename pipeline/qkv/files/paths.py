"""Paths that a person gives: patterns, names, readable, writable, digests."""

import errno
import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import PATH_ERRORS, InputError
from .atomic import writable_only

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH  # not what root may do besides
LONGEST_NAME = 200
"""The longest name of a folder or file to write, in bytes: most systems take 255, and temporary names are longer."""


def as_path(value: Any, name: str, expected: str) -> Path:
    """Returns the path that an argument from Python is, whatever is there.

    Raises:
        InputError: it is neither text nor a path, or no file can have this name; `name`, of the argument, says where.
    """
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name}: expected {expected}, found {value!r:.60}")
    path = Path(value)
    try:
        path.stat()
    except OSError as error:
        if error.errno in PATH_ERRORS:
            raise InputError(f"{name}: expected {expected}, found {str(path)!r:.60}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{name}: expected {expected}, found {str(path)!r:.60}: no file can have this name") from None
    return path


def sha256(path: Path) -> str:
    """Returns the SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_path(path: Path) -> None:
    """Raises an `InputError` if no file or folder can have this path: it is too long, or has zero bytes or half
    characters."""
    try:
        path.lstat()
    except ValueError:
        raise InputError(f"{_shown(str(path))}: no file or folder can have this name; choose another one") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{_shown(str(path))}: {error.strerror}; expected a shorter path") from None


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
    check_path(path)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path == Path(os.devnull):
        return
    is_open = path.is_relative_to("/dev") or path.is_relative_to("/proc")
    if not (stat.S_ISFIFO(mode) and is_open and pipes):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or the like"
        raise InputError(f"{path}: this is {kind}, not a file; expected {wanted}: write its text to a file first")


def is_pattern(path: Path) -> bool:
    """Returns whether a path stands for the files that match it, and no file or folder has that very name."""
    return not path.exists() and glob.has_magic(str(path.relative_to(_literal_part(path))))


def files_like(path: Path) -> list[Path]:
    """Returns what matches a pattern, in any order."""
    folder = _literal_part(path)
    pattern = Path(glob.escape(str(folder))) / path.relative_to(folder)
    return list(map(Path, glob.glob(str(pattern))))  # noqa: PTH207 (a pattern may be absolute)


def _literal_part(path: Path) -> Path:
    """Returns the innermost folder of a path that is there, whatever characters its name has."""
    return next(folder for folder in path.parents if folder.exists())


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


def missing_file(settings: Iterable[tuple[str, object]]) -> Path | None:
    """Returns the first path of a section of a config that is not there, nor any file that matches it; None if all are
    there. A run that was moved has names of files that are not there."""
    paths = (value for _, value in settings if isinstance(value, Path))
    return next((path for path in paths if not path.exists() and not files_like(path)), None)


def match_files(paths: Mapping[str, Path]) -> list[dict[str, Path]]:
    """Returns the files that belong together by their names in the config: the first of each path, the second of each,
    and so on. Raises an `InputError` if the paths, patterns or files, stand for different numbers of files, or for
    none."""
    found = {name: matching_files(path) for name, path in paths.items()}
    if len({len(files) for files in found.values()}) > 1:
        counts = " and ".join(
            f"{paths[name]} ({name}) stands for {len(files)} file{'s' if len(files) > 1 else ''}"
            for name, files in found.items()
        )
        raise InputError(f"{counts}; expected as many of each: look for one that is missing, or narrow the pattern")
    return [dict(zip(found, files, strict=True)) for files in zip(*found.values(), strict=True)]


def name_problem(name: str) -> str | None:
    """Returns what is wrong with the name of a folder or file that is to be written or read, or None."""
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        return f"expected the name of a folder, without slashes or a dot in front, found {_shown(name)}"
    if not is_unicode(name):
        return f"expected the name of a folder, in UTF-8, found {_shown(name)}"
    if len(name.encode()) > LONGEST_NAME:
        return f"expected the name of a folder, of at most {LONGEST_NAME} bytes, found {len(name.encode())}"
    return None


def new_name_problem(name: str) -> str | None:
    """Returns what is wrong with the name of a new run or evaluation, or None; older ones may have characters that
    cannot be seen."""
    if (problem := name_problem(name)) or name.isprintable():
        return problem
    return f"expected the name of a folder, of characters that can be printed, found {_shown(name)}"


def _shown(name: str) -> str:
    return repr(name) if len(name) <= LONGEST_NAME else f"{name[:40]!r}... of {len(name)} characters"


def is_unicode(text: str) -> bool:
    """Returns whether text can be written as UTF-8; bytes of a file name that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(path: Path, pipes: bool = True) -> None:
    """Raises an `InputError` if a text is missing or no file; `pipes` allows a pipe such as a shell's `<(command)`."""
    refuse_other_than_file(path, "a text file", pipes)
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; expected a text file")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}")


def check_file_to_write(path: Path) -> None:
    """Raises an `InputError` if a file cannot be written, nor what a link leads to, nor a device or pipe."""
    check_path(path)
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; expected the name of a file")
    if path.is_file() and (not path.stat().st_mode & _WRITABLE or not os.access(path, os.W_OK)):
        raise InputError(f"{path}: this file is read-only; change its permissions, or choose another file")
    if writable_only(path):
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: cannot be written; change its permissions, or choose another file")
        return
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: expected a name of at most {LONGEST_NAME} bytes")
    check_writable(path.resolve() if path.is_symlink() else path)


def check_folder_to_write(path: Path) -> None:
    """Raises an `InputError` if files cannot be written into a folder, or a file has its name."""
    check_path(path)
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file" if path.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: this is {kind}; expected the name of a folder")
    check_writable(path / "file" if path.is_dir() else path)


def check_writable(path: Path) -> None:
    """Raises an `InputError` if a file or folder cannot be made, with the missing folders above it."""
    folder = next(above for above in path.absolute().parents if os.path.lexists(above))
    if not folder.is_dir():
        kind = "a file" if folder.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: cannot be created: {folder} is {kind}; expected a folder")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be created: {folder} is read-only; change its permissions, or choose another")

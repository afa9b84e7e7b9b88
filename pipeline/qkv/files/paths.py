"""Checks paths that the user gives: valid names, readable and writable files. Also file patterns and digests."""

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

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH  # a file without these is read-only, although root may write it
LONGEST_NAME = 200
"""The longest name of a folder or file to write, in bytes. Most systems allow 255, and temporary names are longer."""


def as_path(value: Any, name: str, expected: str) -> Path:
    """Converts an argument of a Python function to a path. The file need not exist.

    Args:
        value: the argument, text or a path.
        name: the name of the argument, for the message.
        expected: a noun phrase for the message, such as "the folder of a run".

    Raises:
        InputError: the argument is neither text nor a path, or no file can have this name.
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
    """Returns the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_path(path: Path) -> None:
    """Raises an `InputError` if no file can have this path: it is too long, or has a zero byte or a lone surrogate."""
    try:
        path.lstat()
    except ValueError:
        raise InputError(
            f"{_quote_name(str(path))}: no file or folder can have this name; choose another one"
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{_quote_name(str(path))}: {error.strerror}; expected a shorter path") from None


def refuse_other_than_file(path: Path, expected: str, pipes: bool = False) -> None:
    """Raises an `InputError` for a device, socket or named pipe, because reading it could block or never end.

    Call it before a file is opened. A folder, a missing file and `/dev/null` pass. The caller must check for these.

    Args:
        path: the path to read.
        expected: a noun phrase for the message, such as "a text file".
        pipes: if True, a pipe that the shell has opened passes too, such as `<(command)`.

    Raises:
        InputError: the path is a device, a socket or a pipe, or no file can have this path.
        OSError: the file system refuses to describe the path, for example because a folder may not be read.
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
        raise InputError(f"{path}: this is {kind}, not a file; expected {expected}: write its text to a file first")


def is_pattern(path: Path) -> bool:
    """Returns whether a path has wildcards (`*`, `?`, `[abc]`) and is not the name of an existing file or folder."""
    return not path.exists() and glob.has_magic(str(path.relative_to(_literal_part(path))))


def files_like(path: Path) -> list[Path]:
    """Returns the files and folders that match a pattern, in any order.

    Characters like `*` in the name of an existing folder are not wildcards.
    """
    folder = _literal_part(path)
    pattern = Path(glob.escape(str(folder))) / path.relative_to(folder)
    return list(map(Path, glob.glob(str(pattern))))  # noqa: PTH207 (a pattern may be absolute)


def _literal_part(path: Path) -> Path:
    """Returns the innermost folder above a path that exists. Characters like `*` in its name are not wildcards."""
    return next(folder for folder in path.parents if folder.exists())


def matching_files(path: Path) -> list[Path]:
    """Returns the files that match a pattern, in sorted order; for a path that is not a pattern, the path itself.

    Raises:
        InputError: no file matches the pattern.
    """
    if not is_pattern(path):
        return [path]
    files = sorted(file for file in files_like(path) if not file.is_dir())
    if not files:
        raise InputError(
            f"{path}: no file matches this pattern; check the path, which starts at {Path.cwd()}; * stands for any "
            "characters, ? for one, [abc] for one of them"
        )
    return files


def missing_file(settings: Iterable[tuple[str, object]]) -> Path | None:
    """Returns the first path in settings for which there is no file; None if all files exist.

    A path that is a pattern needs a match. Files may be missing if the run was moved to another machine.

    Args:
        settings: (key, value) pairs of a section of a config. Values other than paths are ignored.
    """
    paths = (value for _, value in settings if isinstance(value, Path))
    return next((path for path in paths if not path.exists() and not files_like(path)), None)


def match_files(paths: Mapping[str, Path]) -> list[dict[str, Path]]:
    """Finds the files of several patterns, and groups those that belong together.

    The first group has the first file of each pattern in sorted order, the second group has the second, and so on.

    Args:
        paths: a path or a pattern for each setting, by the name of the setting.

    Returns:
        One dict for each group, from the name of each setting to its file.

    Raises:
        InputError: a pattern matches no file, or two patterns match different numbers of files.
    """
    files_by_name = {name: matching_files(path) for name, path in paths.items()}
    if len({len(files) for files in files_by_name.values()}) > 1:
        counts = " and ".join(
            f"{paths[name]} ({name}) stands for {len(files)} file{'s' if len(files) > 1 else ''}"
            for name, files in files_by_name.items()
        )
        raise InputError(
            f"{counts}; expected the same number of each: look for one that is missing, or narrow the pattern"
        )
    return [dict(zip(files_by_name, files, strict=True)) for files in zip(*files_by_name.values(), strict=True)]


def name_problem(name: str) -> str | None:
    """Returns a message if a name is not allowed for a run or an evaluation; None if it is allowed.

    The name must not be empty, begin with a dot, have slashes or zero bytes, or be longer than `LONGEST_NAME`; and it
    must be valid Unicode.
    """
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        return f"expected the name of a folder, without slashes or a dot in front, found {_quote_name(name)}"
    if not is_unicode(name):
        return f"expected the name of a folder, in UTF-8, found {_quote_name(name)}"
    if len(name.encode()) > LONGEST_NAME:
        return f"expected the name of a folder, of at most {LONGEST_NAME} bytes, found {len(name.encode())}"
    return None


def new_name_problem(name: str) -> str | None:
    """Returns a message if a name is not allowed for a new run or evaluation; None if it is allowed.

    A new name must pass `name_problem`, and must have only printable characters. Older versions allowed others.
    """
    if (problem := name_problem(name)) or name.isprintable():
        return problem
    return f"expected the name of a folder, of characters that can be printed, found {_quote_name(name)}"


def _quote_name(name: str) -> str:
    """Returns a name in quotes, with invisible characters escaped.

    A name of more than `LONGEST_NAME` characters is cut to 40 characters.
    """
    return repr(name) if len(name) <= LONGEST_NAME else f"{name[:40]!r}... of {len(name)} characters"


def is_unicode(text: str) -> bool:
    """Returns whether text can be encoded as UTF-8. It cannot if it has a lone surrogate.

    Python represents bytes of a file name that are not UTF-8 by lone surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(path: Path, pipes: bool = True) -> None:
    """Raises an `InputError` if the path of a text file is missing, a folder, a device or a named pipe.

    If `pipes` is True, a pipe that the shell has opened passes, such as `<(command)`.
    """
    refuse_other_than_file(path, "a text file", pipes)
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; expected a text file")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}")


def check_file_to_write(path: Path) -> None:
    """Raises an `InputError` if a file cannot be written. The file need not exist.

    Links are followed. A device, a pipe or an open file passes if the user may write into it.
    """
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
    """Raises an `InputError` if files cannot be written into a folder, or if the path is not a folder.

    The folder need not exist, if it can be created.
    """
    check_path(path)
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file" if path.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: this is {kind}; expected the name of a folder")
    check_writable(path / "file" if path.is_dir() else path)


def check_writable(path: Path) -> None:
    """Raises an `InputError` if a new file or folder cannot be created, together with the missing folders above it."""
    folder = next(above for above in path.absolute().parents if os.path.lexists(above))
    if not folder.is_dir():
        kind = "a file" if folder.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: cannot be created: {folder} is {kind}; expected a folder")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be created: {folder} is read-only; change its permissions, or choose another")

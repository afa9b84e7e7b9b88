"""Files that appear whole or not at all, JSON, SHA-256 digests, and patterns of file names."""

import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError

LONGEST_NAME = 200
"""The longest name of a folder or file to write, in bytes: most systems take 255, and temporary names are longer."""

_MARK = "qkv-tmp"


def temporary_path(path: Path) -> Path:
    """Returns a hidden path beside `path`, with the same suffix, that nobody else uses: it has a mark and is random."""
    return path.with_name(f".{path.stem}.{secrets.token_hex(8)}.{_MARK}{path.suffix}")


def is_temporary(name: str, of: Path | None = None) -> bool:
    """Returns whether a name is one of `temporary_path`, of any path or of a certain one."""
    stem, suffix = (".+", r"(\.[^.]*)?") if of is None else (re.escape(of.stem), re.escape(of.suffix))
    return re.fullmatch(rf"\.{stem}\.[0-9a-f]{{16}}\.{_MARK}{suffix}", name, re.DOTALL) is not None


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, with the same suffix, which replaces `path` if the block succeeds.

    A crash at any moment leaves either the old file or the new one, never a part of it. The new one has the permissions
    of the old one, or else those of the umask. A link is replaced, not followed: it may lead to another person's file.

    Raises:
        InputError: a folder is there.
    """
    refuse_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = temporary_path(path), path.lstat().st_mode if os.path.lexists(path) else 0
    permissions = stat.S_IMODE(old) & 0o777 if stat.S_ISREG(old) else None
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if permissions is None else 0o600))
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if permissions is not None:
            temporary.chmod(permissions)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, temporary, str(temporary)):
            error.filename = str(path)  # a full disk names no file
        raise


@contextmanager
def output_when_done(path: Path) -> Iterator[Path]:
    """Yields a temporary path, whose content goes to the file that a person has named if the block succeeds.

    A file appears whole or not at all. A link stays, and the file that it leads to is replaced. What is `writable_only`
    is written into.
    """
    if not writable_only(path):
        with replaced_when_done(path.resolve() if path.is_symlink() else path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"output{path.suffix}"
        yield temporary
        sys.stdout.flush()  # what was printed before comes before
        opened = _open_already(path)
        stream = path.open("wb") if opened is None else os.fdopen(os.dup(opened), "wb")
        with temporary.open("rb") as content, stream:
            shutil.copyfileobj(content, stream)


def writable_only(path: Path) -> bool:
    """Returns whether a path can only be written into, not replaced: a device such as `/dev/null`, a pipe, or a file
    that is open already, such as `/dev/stdout`.

    Raises:
        InputError: it is a disk or a socket.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise InputError(f"{path}: this is a disk or a socket; expected the name of a file")
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or _open_already(path) is not None


def _open_already(path: Path) -> int | None:
    """Returns the number of the open file that `/dev/stdout` or `/dev/fd/N` stands for; None for any other path."""
    while path.is_symlink():
        folder = Path(os.path.realpath(path.parent))
        if folder == Path(f"/proc/{os.getpid()}/fd"):
            return int(path.name)
        path = folder / path.readlink()
    return None


def delete_temporary_files(file: Path) -> None:
    """Deletes what killed processes have left half-written of a file; nobody may write it at the moment."""
    for found in file.parent.glob(".*"):
        if is_temporary(found.name, file):
            found.unlink(missing_ok=True)


def delete_temporary_files_below(folder: Path) -> None:
    """Deletes what killed processes have left half-written in a folder of ours and in those below it; nobody may write
    there at the moment. Links are not followed."""
    if folder.is_symlink():
        return
    for place, _, names in os.walk(folder):
        for name in filter(is_temporary, names):
            Path(place, name).unlink(missing_ok=True)


def refuse_folder(file: Path) -> None:
    """Refuses a folder where a file is to be written.

    Raises:
        InputError: a folder is there.
    """
    if file.is_dir() and not file.is_symlink():
        raise InputError(f"{file}: this is a folder, in the place of a file that is to be written; move it away")


def refuse_link(path: Path) -> None:
    """Refuses a part of a run that is to be written and is a link, since it may lead to another person's files.

    Raises:
        InputError: it is one.
    """
    if path.is_symlink():
        raise InputError(
            f"{path}: this is a link, and a run is not written through links; put what it leads to in its place, such "
            "as by copying the run with cp -rL"
        )


def check_own_folder(folder: Path) -> None:
    """Checks that a folder of a run can be written: it is missing, or a folder, no link, that takes new files.

    Raises:
        InputError: a file or a link is there, or the folder is read-only.
    """
    refuse_link(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file, in the place of a folder that is to be written; move it away")
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: this folder is read-only, and is to be written; change its permissions")


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all; a link is replaced."""
    with replaced_when_done(path) as temporary:
        temporary.write_bytes(data)


def write_output(path: Path, data: bytes) -> None:
    """Writes the file that a person has named, as `output_when_done` does."""
    with output_when_done(path) as temporary:
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
    except (FileNotFoundError, NotADirectoryError):
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
    """Returns whether a path stands for the files that match it; files and folders of that very name are meant
    themselves."""
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

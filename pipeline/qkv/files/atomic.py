"""Writes files and folders atomically: each appears complete, or does not appear."""

import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError
from .lock import folder_locked
from .written import note_written

_TEMPORARY_MARK = "qkv-tmp"


def temporary_path(path: Path) -> Path:
    """Returns a new path for a hidden file in the folder of `path`, with the same suffix and a random name."""
    return path.with_name(f".{path.stem}.{secrets.token_hex(8)}.{_TEMPORARY_MARK}{path.suffix}")


def is_temporary(name: str, path: Path | None = None) -> bool:
    """Returns whether a file name is one that `temporary_path` gives for `path`; if this is None, for any path."""
    stem = ".+" if path is None else re.escape(path.stem)
    suffix = r"(\.[^.]*)?" if path is None else re.escape(path.suffix)
    return re.fullmatch(rf"\.{stem}\.[0-9a-f]{{16}}\.{_TEMPORARY_MARK}{suffix}", name, re.DOTALL) is not None


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Creates an empty temporary file in the folder of `path`, and yields its path for the block to write into.

    If the block succeeds, the temporary file replaces `path`; if it fails, the temporary file is deleted. After a crash
    at any moment, `path` is either the old file or the new one, never a part of it. The new file has the permissions of
    the old one, or those of the umask if there was none. A symbolic link is replaced, not followed: it may lead to
    another user's file. Missing folders are created.

    Raises:
        InputError: `path` is a folder.
        OSError: the file cannot be written, for example because the disk is full; the error names `path`.
    """
    refuse_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    old = path.lstat().st_mode if os.path.lexists(path) else 0
    permissions = stat.S_IMODE(old) & 0o777 if stat.S_ISREG(old) else None
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if permissions is None else 0o600))
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if permissions is not None:
            temporary.chmod(permissions)
        note_written(path)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, temporary, str(temporary)):
            error.filename = str(path)  # a full disk names no file
        raise


@contextmanager
def output_when_done(path: Path) -> Iterator[Path]:
    """Yields a temporary path for the block to write into; if the block succeeds, the content goes to `path`.

    Use it for an output that the user names. A file is replaced as by `replaced_when_done`, but a symbolic link is
    followed. A device, a pipe or an open file (see `writable_only`) is not replaced: the content is copied into it.

    Raises:
        InputError: `path` is a folder, a disk or a socket.
        OSError: the file cannot be written; the error names `path`.
    """
    if not writable_only(path):
        with replaced_when_done(path.resolve() if path.is_symlink() else path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"output{path.suffix}"
        yield temporary
        sys.stdout.flush()  # earlier output comes first if `path` is standard output
        descriptor = _open_descriptor(path)
        try:
            stream = path.open("wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb")
            with temporary.open("rb") as content, stream:
                shutil.copyfileobj(content, stream)
        except OSError as error:
            error.filename = str(path)  # a full device names no file
            raise


def writable_only(path: Path) -> bool:
    """Returns whether a path can be written into but not replaced.

    This holds for a device such as `/dev/null`, a pipe, and a file that this process has open, such as `/dev/stdout`.

    Raises:
        InputError: the path is a disk or a socket.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise InputError(f"{path}: this is a disk or a socket; expected the name of a file")
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or _open_descriptor(path) is not None


def _open_descriptor(path: Path) -> int | None:
    """Returns the file descriptor that `/dev/stdout` or `/dev/fd/N` stands for; None for any other path."""
    while path.is_symlink():
        folder = Path(os.path.realpath(path.parent))
        if folder == Path(f"/proc/{os.getpid()}/fd"):
            return int(path.name)
        path = folder / path.readlink()
    return None


def delete_temporary_files(path: Path) -> None:
    """Deletes the temporary files and folders of `path` that killed processes left behind.

    Call it only while no other process writes `path`, for example with `files.lock.folder_locked`.
    """
    for candidate in path.parent.glob(".*"):
        if is_temporary(candidate.name, path):
            if candidate.is_dir() and not candidate.is_symlink():
                shutil.rmtree(candidate, ignore_errors=True)
            else:
                candidate.unlink(missing_ok=True)


def delete_temporary_files_below(folder: Path) -> None:
    """Deletes all temporary files in a folder and its subfolders that killed processes left behind.

    Symbolic links are not followed. Call it only while no other process writes into the folder.
    """
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        for name in filter(is_temporary, names):
            Path(parent, name).unlink(missing_ok=True)


def refuse_folder(file: Path) -> None:
    """Raises an `InputError` if the path of a file to write is a folder."""
    if file.is_dir() and not file.is_symlink():
        raise InputError(f"{file}: this is a folder, in the place of a file that is to be written; move it away")


def refuse_link(path: Path) -> None:
    """Raises an `InputError` if the path of a file or folder to write in a run is a symbolic link.

    Nothing in a run is written through links, because they may lead to another user's files.
    """
    if path.is_symlink():
        raise InputError(
            f"{path}: this is a link, and a run is not written through links; replace it by a copy of the file or "
            "folder that it leads to, for example with cp -rL"
        )


def check_run_folder(folder: Path) -> None:
    """Raises an `InputError` if a folder of a run is a symbolic link, a file or read-only. A missing folder passes."""
    refuse_link(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file, in the place of a folder that is to be written; move it away")
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: this folder is read-only, and files go into it; change its permissions")


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file with this content; an existing file or link is replaced as by `replaced_when_done`."""
    with replaced_when_done(path) as temporary:
        temporary.write_bytes(data)


def write_output(path: Path, data: bytes) -> None:
    """Writes a file that the user has named, with this content; see `output_when_done`."""
    with output_when_done(path) as temporary:
        temporary.write_bytes(data)


def check_new_folder(path: Path) -> None:
    """Raises an `InputError` if the path of a new folder exists already and is not an empty folder."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path}: exists already; choose another name, or delete it")


@contextmanager
def new_folder(path: Path, activity: str) -> Iterator[Path]:
    """Creates a hidden folder beside `path`, and yields its path for the block to write into.

    If the block succeeds, the hidden folder is renamed to `path`; otherwise it is deleted. Hidden folders that killed
    processes left behind are deleted first. The name of the hidden folder is random, so that nobody can put a link in
    its place.

    Args:
        path: the folder to write.
        activity: a verb phrase for the message that another process gets meanwhile, such as "writes this folder".

    Raises:
        InputError: `path` exists and is not an empty folder, or cannot be created, or another process writes it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be created: {error.strerror}") from None
    with folder_locked(path.parent / f".{path.name}.qkv-lock", activity, path):
        delete_temporary_files(path)
        check_new_folder(path)
        hidden = temporary_path(path)
        hidden.mkdir()
        try:
            yield hidden
            check_new_folder(path)
            if path.is_dir():
                path.rmdir()
            hidden.rename(path)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

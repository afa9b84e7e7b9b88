"""Files and folders that appear whole or not at all."""

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
    of the old one, or else of the umask. A link is replaced, not followed: it may lead to another person's file.

    Raises:
        InputError: a folder is there.
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
    """Yields a temporary path, whose content goes to the file that a person has named if the block succeeds.

    A file appears whole or not at all, where a link leads, too. What is `writable_only` is written into.
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
        try:
            stream = path.open("wb") if opened is None else os.fdopen(os.dup(opened), "wb")
            with temporary.open("rb") as content, stream:
                shutil.copyfileobj(content, stream)
        except OSError as error:
            error.filename = str(path)  # a full device names no file
            raise


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


def delete_temporary_files(path: Path) -> None:
    """Deletes what killed processes have left half-written of a file or folder; nobody may write it at the moment."""
    for found in path.parent.glob(".*"):
        if is_temporary(found.name, path):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)


def delete_temporary_files_below(folder: Path) -> None:
    """Deletes what killed processes have left half-written in and below a folder, behind no link; nobody may write."""
    if folder.is_symlink():
        return
    for place, _, names in os.walk(folder):
        for name in filter(is_temporary, names):
            Path(place, name).unlink(missing_ok=True)


def refuse_folder(file: Path) -> None:
    """Raises an `InputError` if a folder is where a file is to be written."""
    if file.is_dir() and not file.is_symlink():
        raise InputError(f"{file}: this is a folder, in the place of a file that is to be written; move it away")


def refuse_link(path: Path) -> None:
    """Raises an `InputError` if a part of a run to write is a link: it may lead to another person's files."""
    if path.is_symlink():
        raise InputError(
            f"{path}: this is a link, and a run is not written through links; copy what it leads to, as with cp -rL"
        )


def check_own_folder(folder: Path) -> None:
    """Raises an `InputError` unless a folder of a run can be written: it is missing, or no link and writable."""
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


def check_new_folder(path: Path) -> None:
    """Raises an `InputError` if something is where a folder is to be written; an empty folder is taken."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path}: exists already; choose another name, or delete it")


@contextmanager
def new_folder(path: Path, what: str) -> Iterator[Path]:
    """Yields a hidden folder beside `path`, which becomes `path` if the block succeeds, and is deleted otherwise.

    What a killed process has left of it is deleted by the next one. The hidden folder has a name that nobody can guess,
    so that nothing else, and no link, can be in its place.

    Args:
        path: the folder to write.
        what: what its writer does, for the message: "writes this folder".

    Raises:
        InputError: there is such a folder already, it cannot be created, or another process writes it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be created: {error.strerror}") from None
    with folder_locked(path.parent / f".{path.name}.qkv-lock", what, path):
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

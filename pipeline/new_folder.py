"""Folders that appear whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError
from .file_lock import folder_locked
from .files import is_temporary, temporary_path


def check_new_folder(path: Path) -> None:
    """Checks that nothing is where a folder is to be written; an empty folder is taken.

    Raises:
        InputError: there is something.
    """
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
    lock = path.parent / f".{path.name}.qkv-lock"
    try:
        check_new_folder(path)
    except InputError:
        if lock.exists():  # of a process that was killed after its folder had appeared, or is writing there
            with suppress(InputError, OSError), folder_locked(lock, what, path):
                _delete_left_over(path)
        raise
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be created: {error.strerror}") from None
    with folder_locked(lock, what, path):
        _delete_left_over(path)
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


def _delete_left_over(path: Path) -> None:
    """Deletes what killed processes have left of a folder; only for the process that holds its lock."""
    for found in path.parent.iterdir():
        if is_temporary(found.name, path):
            shutil.rmtree(found, ignore_errors=True)  # which follows no links

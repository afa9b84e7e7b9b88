"""Folders that appear whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError
from .file_lock import folder_locked


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

    What a killed process has left of it is deleted by the next one.

    Args:
        path: the folder to write.
        what: what its writer does, for the message: "writes this folder".

    Raises:
        InputError: there is such a folder already, it cannot be created, or another process writes it.
    """
    hidden = path.parent / f".{path.name}.unfinished"
    try:
        check_new_folder(path)
    except InputError:
        _delete_left_over(hidden, what)
        raise
    try:
        hidden.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be created: {error.strerror}") from None
    lock = hidden / ".lock"
    try:
        with folder_locked(lock, what):
            _delete_all_but(lock)
            written = hidden / path.name
            written.mkdir()
            try:
                yield written
                if path.is_dir():
                    path.rmdir()
                written.rename(path)
            finally:
                _delete_all_but(lock)
    finally:
        with suppress(OSError):  # another process may be writing there
            hidden.rmdir()


def _delete_left_over(hidden: Path, what: str) -> None:
    """Deletes what a process has left that was killed after its folder had appeared, unless one is writing there."""
    if hidden.is_dir():
        with suppress(InputError, OSError):
            with folder_locked(hidden / ".lock", what):
                _delete_all_but(hidden / ".lock")
            (hidden / ".lock").unlink(missing_ok=True)
            hidden.rmdir()


def _delete_all_but(kept: Path) -> None:
    for path in kept.parent.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path != kept:
            path.unlink()

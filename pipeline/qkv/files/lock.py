"""Locks on files, by what the system has: the system releases them when a process ends, even if it is killed."""

import contextlib
import os
import re
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from ..errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HOLDER = "process "  # begins what is in the file of a lock
LOCK_TEXT_LENGTH = 500
FAR_BYTE = 1 << 30  # Windows locks bytes, also against reading: one that is never written


def lock_file(file: IO) -> None:
    """Locks an open file until it is closed, where locks are known; a `BlockingIOError` if another process has it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif sys.platform == "win32":
        import msvcrt

        file.seek(FAR_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from None


@contextmanager
def folder_locked(lock: Path, what: str, folder: Path | None = None) -> Iterator[None]:
    """Keeps other processes from working in a folder within the block.

    The system releases the lock when the process ends, even if it is killed; the next one deletes its file.

    Args:
        lock: a file for the lock alone.
        what: what its holder does, for the message: "trains this run".
        folder: the folder, for the message; by default the lock's.

    Raises:
        InputError: another process holds the lock; or a link or another file is in its place.
    """
    with _locked_file(lock, what, folder or lock.parent) as file:
        try:
            try:
                file.truncate(0)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
                os.write(file.fileno(), f"{HOLDER}{os.getpid()} on {socket.gethostname()}".encode())
            except OSError as error:  # a full disk names no file
                error.filename = str(lock)
                raise
            yield
        finally:
            with contextlib.suppress(PermissionError):  # Windows deletes no open file
                lock.unlink(missing_ok=True)


def _locked_file(lock: Path, what: str, folder: Path) -> TextIO:
    while True:
        file = _open(lock)
        locked = False
        with contextlib.suppress(BlockingIOError):
            lock_file(file)
            locked = True
        file.seek(0)
        found = file.read(LOCK_TEXT_LENGTH)
        file.seek(0)
        if not locked:
            file.close()
            holder = found if found.startswith(HOLDER) else "another process"
            raise InputError(f"{folder}: {holder} {what} at the moment; wait for it, or stop it")
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(state := os.fstat(file.fileno()), lock.lstat()):
                if found and (state.st_nlink > 1 or not re.fullmatch(rf"{HOLDER}\d+ on .*", found)):
                    file.close()
                    raise _not_ours(lock)
                return file
        file.close()  # its holder has deleted it in between


def _open(lock: Path) -> TextIO:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(lock.lstat().st_mode):
            raise _not_ours(lock)
    # A link that has just been put there is not followed either, where the system can tell.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    return os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")


def _not_ours(lock: Path) -> InputError:
    return InputError(
        f"{lock}: this is a link, a folder, or a file of another program; expected nothing, or the lock of a process "
        "that was killed; move it away"
    )

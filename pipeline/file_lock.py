"""Locks on files, by what the system has: the system releases them when a process ends, even if it is killed."""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FAR_BYTE = 1 << 30  # Windows locks bytes, also against reading: one that is never written


def lock_file(file: IO) -> None:
    """Locks an open file for this process until it is closed. Systems without locks let everybody have it.

    Raises:
        BlockingIOError: another process holds the lock.
    """
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
def folder_locked(lock: Path, what: str) -> Iterator[None]:
    """Keeps other processes from working in a folder within the block.

    The system releases the lock when the process ends, even if it is killed; the next one deletes its file.

    Args:
        lock: a file of the folder, for the lock alone.
        what: what its holder does, for the message: "trains this run".

    Raises:
        InputError: another process holds the lock.
    """
    with _locked_file(lock, what) as file:
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield
        finally:
            with contextlib.suppress(PermissionError):  # Windows deletes no open file
                lock.unlink(missing_ok=True)


def _locked_file(lock: Path, what: str) -> TextIO:
    while True:
        file = lock.open("a+", encoding="utf-8")
        try:
            lock_file(file)
        except BlockingIOError:
            file.seek(0)
            holder = file.read() or "another process"
            file.close()
            raise InputError(f"{lock.parent}: {holder} {what} at the moment; wait for it, or stop it") from None
        try:
            if os.fstat(file.fileno()).st_ino == lock.stat().st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()  # its holder has deleted it in between

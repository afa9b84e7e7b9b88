"""Locks files and folders, so that two processes do not write them at the same time.

The operating system releases a lock when its process ends, even if the process is killed.
"""

import contextlib
import errno
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

HOLDER_PREFIX = "process "  # the text of a lock file begins with this
LOCK_TEXT_LENGTH = 500  # characters of a lock file that are read
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # the file system has none, as some network drives
UNUSED_BYTE = 1 << 30  # Windows locks single bytes, also against reading: this position is never written


def lock_file(file: IO) -> None:
    """Locks an open file until it is closed. Does not wait. Does nothing on a system or a file system without locks.

    Raises:
        BlockingIOError: another process has locked the file.
    """
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
    elif sys.platform == "win32":
        import msvcrt

        file.seek(UNUSED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from None


@contextmanager
def folder_locked(lock: Path, activity: str, folder: Path | None = None) -> Iterator[None]:
    """Holds the lock of a folder within the block. Does not wait: if another process holds it, raises an `InputError`.

    The lock file is deleted at the end of the block. If this process is killed, the file stays but is not locked, so
    that the next process can lock it.

    Args:
        lock: the path of the lock file, which is created.
        activity: a verb phrase for the message that another process gets meanwhile, such as "trains this run".
        folder: the folder, for the message; None for the folder of the lock file.

    Raises:
        InputError: another process holds the lock, or the path of the lock file is a link, a folder or a file of
            another program.
        OSError: the lock file cannot be written; the error names it.
    """
    with _open_and_lock(lock, activity, folder or lock.parent) as file:
        try:
            try:
                file.truncate(0)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
                os.write(file.fileno(), f"{HOLDER_PREFIX}{os.getpid()} on {socket.gethostname()}".encode())
            except OSError as error:  # a full disk names no file
                error.filename = str(lock)
                raise
            yield
        finally:
            with contextlib.suppress(PermissionError):  # Windows does not delete open files
                lock.unlink(missing_ok=True)


def _open_and_lock(lock: Path, activity: str, folder: Path) -> TextIO:
    """Returns the lock file, open and locked; raises an `InputError` as `folder_locked` does."""
    while True:
        file = _open(lock)
        locked = False
        with contextlib.suppress(BlockingIOError):
            lock_file(file)
            locked = True
        file.seek(0)
        text = file.read(LOCK_TEXT_LENGTH)
        file.seek(0)
        if not locked:
            file.close()
            holder = text if text.startswith(HOLDER_PREFIX) else "another process"
            raise InputError(f"{folder}: {holder} {activity} at the moment; wait for it, or stop it")
        with contextlib.suppress(FileNotFoundError):
            state = os.fstat(file.fileno())
            if os.path.samestat(state, lock.lstat()):
                if text and (state.st_nlink > 1 or not re.fullmatch(rf"{HOLDER_PREFIX}\d+ on .*", text)):
                    file.close()
                    raise _not_a_lock(lock)
                return file
        file.close()  # the process that held the lock has deleted the file in the meantime


def _open(lock: Path) -> TextIO:
    """Opens a lock file for reading and writing, and creates it if it is missing.

    Raises an `InputError` if the path is a link or a folder.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(lock.lstat().st_mode):
            raise _not_a_lock(lock)
    # Nor is a link followed that has been created since the check, on systems that have O_NOFOLLOW.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    return os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")


def _not_a_lock(lock: Path) -> InputError:
    """Returns the error for the path of a lock file that is a link, a folder or a file of another program."""
    return InputError(
        f"{lock}: this is a link, a folder, or a file of another program; a lock file of this name is to be written; "
        "move it away"
    )

"""Locks on files, by what the system has: the system releases them when a process ends, even if it is killed."""

import sys
from typing import IO

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

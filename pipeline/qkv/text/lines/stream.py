"""Lines of a stream, in windows of what has arrived: one line from a terminal, a thousand from a file."""

import os
import queue
import stat
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from .line import BYTE_ORDER_MARK, decode_line, refuse_returns

WINDOW_LINES = 1000  # memory use does not grow with the input
PATIENCE_SECONDS = 0.1  # how long a window waits for more lines than its first
_END = None


class ArrivingLines:
    """Reads the lines of a UTF-8 stream in a thread of its own, from the moment at which it is made.

    What a line is, `decode_line` says. A thread with a queue works everywhere; pipes of Windows cannot be polled.

    Args:
        stream: what is read.
        window_lines: the maximum number of lines of a window.
        patience_seconds: how long a window waits after its first line; None, as for regular files: until it is full.
    """

    def __init__(
        self, stream: BinaryIO, window_lines: int = WINDOW_LINES, patience_seconds: float | None = PATIENCE_SECONDS
    ) -> None:
        self._stream = stream  # closed with its last reference
        self._window_lines = window_lines
        self._patience_seconds = None if _is_regular_file(stream) else patience_seconds
        self._arrived: queue.Queue[str | Exception | None] = queue.Queue(window_lines)
        # A daemon, because nothing can end a read that waits for a terminal.
        threading.Thread(target=self._read, args=(_unlocked(stream),), daemon=True).start()

    def windows(self) -> Iterator[list[str]]:
        """Yields lists of lines as soon as there are any.

        Raises:
            InputError: a line is not UTF-8; the lines before it are yielded first.
        """
        last: str | Exception | None = ""
        while last is not _END:
            window, last = self._collect_window()
            if window:
                yield window
            if isinstance(last, Exception):
                raise last

    def _collect_window(self) -> tuple[list[str], str | Exception | None]:
        """Returns the lines of a window, and the last item taken from the queue."""
        window: list[str] = []
        item = self._arrived.get()
        deadline = None if self._patience_seconds is None else time.monotonic() + self._patience_seconds
        while isinstance(item, str):
            window.append(item)
            if len(window) == self._window_lines:
                break
            try:
                item = self._arrived.get(timeout=None if deadline is None else max(0, deadline - time.monotonic()))
            except queue.Empty:
                break
        return window, item

    def _read(self, stream: BinaryIO) -> None:
        try:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    refuse_returns(line, "standard input")
                    line = line.removeprefix(BYTE_ORDER_MARK)
                self._arrived.put(decode_line(line, "standard input", number))
            self._arrived.put(_END)
        except Exception as error:  # raised again where the lines are used
            self._arrived.put(error)


def _is_regular_file(stream: BinaryIO) -> bool:
    """Returns whether a stream never keeps its reader waiting; one in memory never does."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):
        return True


def _unlocked(stream: BinaryIO) -> BinaryIO:
    """Returns another reader of the same file: Python's end waits for the lock of `sys.stdin`, which a read holds."""
    try:
        return open(stream.fileno(), "rb", closefd=False)
    except (OSError, AttributeError):
        return stream

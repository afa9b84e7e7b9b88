"""Lines of a stream, in windows of the lines that have arrived: one line from a terminal, a thousand from a file."""

import os
import queue
import stat
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from .line import BYTE_ORDER_MARK, decode_line, refuse_carriage_returns

WINDOW_LINES = 1000  # the maximum number of lines in a window, so that memory use does not grow with the input
WINDOW_SECONDS = 0.1  # the time for which a window waits for more lines after its first one
_END = None  # in the queue, the end of the stream


class ArrivingLines:
    """Reads the lines of a UTF-8 stream in a separate thread, which the constructor starts.

    A thread with a queue works on all systems; pipes on Windows cannot be polled.

    Args:
        stream: the stream. Messages call it standard input.
        window_lines: the maximum number of lines in a window.
        patience_seconds: the time for which a window waits for more lines after its first one. None waits until the
            window is full or the stream ends, as windows of a regular file always do.
        composes: see `text.lines.line.decode_line`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        window_lines: int = WINDOW_LINES,
        patience_seconds: float | None = WINDOW_SECONDS,
        *,
        composes: bool = True,
    ) -> None:
        self._stream = stream  # a reference that keeps the stream open
        self._window_lines = window_lines
        self._patience_seconds = None if _is_regular_file(stream) else patience_seconds
        self._composes = composes
        self._arrived: queue.Queue[str | Exception | None] = queue.Queue(window_lines)
        # A daemon thread, because a read that waits for a terminal cannot be stopped.
        threading.Thread(target=self._read, args=(_unlocked(stream),), daemon=True).start()

    def windows(self) -> Iterator[list[str]]:
        """Yields windows: lists of at least one line, decoded by `text.lines.line.decode_line`.

        Raises:
            InputError: a line is not UTF-8, or lines end in carriage returns only. The lines before it are yielded
                first.
            OSError: the stream cannot be read.
        """
        last: str | Exception | None = ""
        while last is not _END:
            window, last = self._collect_window()
            if window:
                yield window
            if isinstance(last, Exception):
                raise last

    def _collect_window(self) -> tuple[list[str], str | Exception | None]:
        """Returns the lines of the next window, and the last item from the queue: a line, an error, or `_END`."""
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
        """Puts the lines of the stream into the queue, and at the end `_END` or the error that occurred."""
        try:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    refuse_carriage_returns(line, "standard input")
                    line = line.removeprefix(BYTE_ORDER_MARK)
                self._arrived.put(decode_line(line, "standard input", number, self._composes))
            self._arrived.put(_END)
        except Exception as error:  # raised again by `windows`
            self._arrived.put(error)


def _is_regular_file(stream: BinaryIO) -> bool:
    """Returns whether a stream is a regular file or is in memory, so that reading it never waits."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):
        return True


def _unlocked(stream: BinaryIO) -> BinaryIO:
    """Returns a second reader of the stream's file; the stream itself if it has no file.

    A thread that reads `sys.stdin` holds its lock, and Python waits for this lock when the program ends. The second
    reader has a separate lock.
    """
    try:
        return open(stream.fileno(), "rb", closefd=False)
    except (OSError, AttributeError):
        return stream

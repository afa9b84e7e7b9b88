"""Prepares standard input, output and error of a command.

Opens closed streams, handles readers that leave and full disks, and escapes control characters in text from others,
which could change the terminal.
"""

import contextlib
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO, cast

_ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All control characters except tab and line feed, line separators, and marks of the writing direction."""


class Control(str):
    """Text with control sequences for the terminal, such as colours, which `EscapingStream` does not escape."""

    __slots__ = ()


class EscapingStream:
    """A text stream that escapes characters which could control a terminal, as Python does: `\\x1b`.

    Characters that the stream's encoding lacks are escaped too.

    Args:
        stream: the stream that the text is written to. All attributes except `write` are taken from this stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text, escaped unless it is a `Control`. Returns the number of characters, before they are escaped."""
        if isinstance(text, Control):
            return self._stream.write(text)
        encoding = self._stream.encoding or "utf-8"
        escaped = _ESCAPED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
        self._stream.write(escaped.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)


def write_result(text: str) -> None:
    """Writes a result of a command to standard output, which another program may read.

    The text is written in UTF-8 and unchanged, but on a terminal control characters are escaped.
    """
    if sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        sys.stdout.buffer.write(text.encode())


class OutputHandler(logging.StreamHandler):
    """A log handler that writes messages to standard output. If that fails, it raises the `OSError`.

    Other log handlers print the error and go on.
    """

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.setFormatter(logging.Formatter("%(message)s"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (called by the logging module)
        """Raises the error of the current `except` block if it is an `OSError`; prints other errors."""
        if isinstance(sys.exc_info()[1], OSError):
            raise
        super().handleError(record)


class Messages(EscapingStream):
    """The standard output of a command whose results are files: if the reader leaves (`| head`), the work continues."""

    def write(self, text: str) -> int:
        """Writes text; does nothing once the reader has left. Returns the number of characters."""
        try:
            return super().write(text)
        except BrokenPipeError:
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flushes the stream; does nothing once the reader has left."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)


def prepare_streams() -> None:
    """Makes standard output and standard error escape control characters, and opens closed standard streams.

    A standard stream may be closed by the shell (`>&-`). It is opened on the null device. Otherwise the next file that
    the command opens would get the number of the stream, and libraries would print into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            setattr(sys, name, stream)
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), EscapingStream):
            setattr(sys, name, cast(TextIO, EscapingStream(stream)))


def discard(stream: TextIO) -> None:
    """Makes a stream discard all text that is written to it from now on."""
    with contextlib.suppress(OSError, ValueError):  # the stream of a test or a notebook has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def can_flush(stream: TextIO) -> bool:
    """Flushes a stream, and returns whether that succeeds.

    If it fails, the stream discards its text, so that Python does not try again when the process ends.
    """
    try:
        stream.flush()
    except OSError:
        discard(stream)
        return False
    return True

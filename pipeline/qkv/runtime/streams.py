"""Standard input, output and error of a command: closed, full, without a reader, or in an encoding that lacks
characters; and what a terminal must not be told by text from others."""

import contextlib
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO, cast

_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All control characters but tab and line feed, and what makes or hides the order of the characters beside it."""


class Control(str):
    """Text that a terminal is to obey. All other text of `EscapingStream` is only shown."""

    __slots__ = ()


class EscapingStream:
    """A stream that people read: characters that would steer their terminal are written as Python writes them, such as
    `\\x1b`, and so are those that the stream's encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text, escaped unless it is a `Control`."""
        if isinstance(text, Control):
            return self._stream.write(text)
        encoding = self._stream.encoding or "utf-8"
        escaped = _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
        self._stream.write(escaped.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)


def write_result(text: str) -> None:
    """Writes what another program may read to standard output: in UTF-8, as it is, but on a terminal as a message."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        sys.stdout.buffer.write(text.encode())


class OutputHandler(logging.StreamHandler):
    """Writes messages to standard output; where that fails, the command ends as after any other write that fails."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.setFormatter(logging.Formatter("%(message)s"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (called by the logging module)
        """Raises the error of the system that is being handled."""
        if isinstance(sys.exc_info()[1], OSError):
            raise
        super().handleError(record)


class Messages(EscapingStream):
    """Standard output of a command whose results are files: a reader that leaves (`| head`) does not end the work."""

    def write(self, text: str) -> int:
        """Writes, or does nothing once the reader has left."""
        try:
            return super().write(text)
        except BrokenPipeError:
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flushes, or does nothing once the reader has left."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)


def prepare_streams() -> None:
    """Makes standard output and standard error escape what is no plain text. Opens standard streams that are closed
    (`>&-`), as empty ones: otherwise a file of the command would get its number, and what libraries print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            setattr(sys, name, stream)
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), EscapingStream):
            setattr(sys, name, cast(TextIO, EscapingStream(stream)))


def discard(stream: TextIO) -> None:
    """Discards whatever is written to a stream from now on."""
    with contextlib.suppress(OSError, ValueError):  # it is no file, but a stream of a test or a notebook
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def can_flush(stream: TextIO) -> bool:
    """Flushes, and returns whether that works; if not, Python must not try again when the process ends."""
    try:
        stream.flush()
    except OSError:
        discard(stream)
        return False
    return True

"""Standard input, output and error of a command: closed, full, or without a reader."""

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO


class HelpPrinter:
    """The part of a parser that prints help; the standard one passes over a write that fails."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints; called by the standard parser."""
        (file or sys.stdout).write(message)


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


class Messages:
    """Standard output of a command whose results are files: a reader that leaves (`| head`) ends the messages, not the
    work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes, or does nothing once the reader has left."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flushes, or does nothing once the reader has left."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)


def open_closed_streams() -> None:
    """Opens standard streams that are closed (`>&-`), as empty ones: a file of the command would get the number of a
    closed one, and what libraries print would be written into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            setattr(sys, name, stream)


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

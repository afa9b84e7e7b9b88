"""Runs the commands of a clone as a person does: in a shell's folder of their own, by their names."""

import contextlib
import importlib
import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Ended(NamedTuple):
    """What a command left."""

    status: int
    stdout: str
    stderr: str


def run(folder: Path, *words: str, given: str | None = None) -> Ended:
    """Runs `python train.py ...`, `python evaluate.py ...` or `qkv NAME ...` in a folder.

    It runs within this process: a process of its own would import TensorFlow once more for every command, which takes
    longer than most of them. That commands run in processes of their own is for `test_installed_package.py`.

    Args:
        folder: where the command runs.
        words: the command without `python`, such as "train.py" or "-m qkv translate".
        given: its standard input.

    Raises:
        AssertionError: the command failed.
    """
    name, arguments = (words[2], words[3:]) if words[0] == "-m" else (Path(words[0]).stem, words[1:])
    output, errors = (_stream(b"") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, _logging_as_in_a_new_process():
        patch.chdir(folder)
        patch.setattr("sys.argv", [words[0], *arguments])
        for side, stream in (("stdin", _stream((given or "").encode())), ("stdout", output), ("stderr", errors)):
            patch.setattr(sys, side, stream)
        try:
            status = importlib.import_module(f"qkv.commands.{name}").main(list(arguments))
        except SystemExit as end:  # of --help
            status = end.code
    ended = Ended(status, *(stream.buffer.getvalue().decode() for stream in (output, errors)))
    assert ended.status == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended


def _stream(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)


@contextlib.contextmanager
def _logging_as_in_a_new_process() -> Iterator[None]:
    """Without handlers, so that a command adds its own, which go with it."""
    loggers = [logging.getLogger(name) for name in (None, "qkv")]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers.clear()
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(level)

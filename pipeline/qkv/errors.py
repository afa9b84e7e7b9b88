"""Errors that the user can fix, and parts of their messages.

A message names the mistake, the expected value, and the remedy.
"""

import difflib
import errno
import os
import re
import shlex
import sys
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

PATH_ERRORS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO)
"""The error numbers of paths that cannot exist, and of pipes and devices without a process at the other end."""
LONGEST_SHOWN = 1000
"""The maximum length of a path, in characters, that a message shows whole."""

ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room and start the same command again"),
    errno.EFBIG: "allow larger files (ulimit -f unlimited, or another disk) and start the same command again",
    errno.EROFS: "choose a folder that can be written to",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "change its permissions, or choose another folder"),
    **dict.fromkeys(PATH_ERRORS, "expected the path of a file or folder that exists"),
}
"""The advice for each error number of a file system that refuses to read or write."""

DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, BadZipFile, zlib.error),
    *(TokenError, SyntaxError, OverflowError),
)
"""The exceptions that reading a damaged archive can raise. Flipped bits can claim encryption or an unknown compression,
and NumPy parses the header of an array as an expression."""


def file_system_message(error: Exception) -> str | None:
    """Returns a message about an error of the file system and how to fix it.

    Args:
        error: an exception of Python or TensorFlow.

    Returns:
        The message; None for any other error.
    """
    if isinstance(error, OSError):
        if error.errno in ADVICE:
            path = f"{_shortened(str(error.filename))}: " if error.filename else ""
            return f"{path}{error.strerror}; {ADVICE[error.errno]}"
        if str(error.strerror).startswith("No usable temporary directory"):
            return f"{error.strerror}; make room there, or set TMPDIR to a folder that can be written to"
        return None
    if type(error).__module__.startswith("tensorflow"):  # its errors of writing are not OSErrors
        text = str(error)
        for number, advice in ADVICE.items():
            reason = os.strerror(number)
            before, reason_in_text, _ = text.partition(reason)
            if reason_in_text:
                path = re.sub(r"^\{\{.*\}\}", "", before.split("\n")[-1]).strip(" ;")
                return f"{path}: {reason}; {advice}"
    return None


def _shortened(path: str) -> str:
    """Returns a path for a message. Of a path longer than `LONGEST_SHOWN`, it returns the beginning and the length."""
    return path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}... of {len(path)} characters"


def first_line(error: BaseException) -> str:
    """Returns the first line of the message of an error; the name of its class if it has no message."""
    return str(error).strip().split("\n")[0] or type(error).__name__


LONGEST_MESSAGE = 4000
"""The maximum length of a message in characters, about a screen. A quoted value may be a whole file."""


def quoted(value: object) -> str:
    """Returns the `repr` of a value for a message, cut to 60 characters."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python does not write integers of more than 4,300 digits
        return "a number of thousands of digits"


class InputError(ValueError):
    """An error that the user can fix, in an argument, a setting, a path, a file or a run.

    Args:
        message: the place of the error (`file:line`, or the key), the expected and the found value, and the remedy. If
            it is longer than `LONGEST_MESSAGE`, its middle is left out.
    """

    def __init__(self, message: str = "") -> None:
        if len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2 - 25  # leaves space for the words in the middle
            message = f"{message[:half]} [... {len(message) - 2 * half:,} characters ...] {message[-half:]}"
        super().__init__(message)


def import_optional(module: str, message: str) -> Any:
    """Imports and returns a module. Raises an `InputError` with `message` if the module is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(message) from None


class LostWorkerError(Exception):
    """The error that another worker or process has ended, hangs, or has not started.

    The user can start the same command again to continue the work.
    """


def did_you_mean(key: str, keys: Sequence[str]) -> str:
    """Returns the end of a message about an unknown key: "; did you mean KEY?", or "" if no key is similar.

    A key with the same name in another section is suggested first, then a key with a similar name, in the same section
    if possible.

    Args:
        key: the unknown name or dotted key.
        keys: all known keys.
    """
    section, _, name = key.rpartition(".")
    siblings = {known.rpartition(".")[2]: known for known in reversed(keys) if known.rpartition(".")[0] == section}
    everywhere = {known.rpartition(".")[2]: known for known in reversed(keys)}
    if name in everywhere:
        return f"; did you mean {everywhere[name]}?"
    for wanted, candidates in ((name, siblings), (name, everywhere), (key, dict(zip(keys, keys, strict=True)))):
        if similar := difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.7):
            return f"; did you mean {candidates[similar[0]]}?"
    return ""


SCRIPT_COMMANDS = ("train", "evaluate")
"""The commands that also have a script in the root of the repository."""


def invocation(command: str, *arguments: str | Path) -> str:
    """Returns a command line for a message, such as "qkv train --resume 'runs/my run'".

    If the user has started `train.py` or `evaluate.py`, these commands are written as scripts: "python train.py ...".

    Args:
        command: the name of the command.
        arguments: the arguments of the command; they are quoted for the shell if necessary.
    """
    as_scripts = command in SCRIPT_COMMANDS and Path(sys.argv[0]).name in {f"{name}.py" for name in SCRIPT_COMMANDS}
    program = ["python", f"{command}.py"] if as_scripts else ["qkv", command]
    return shlex.join([*program, *map(str, arguments)])

"""Errors that the user can mend, which commands report in one message: what was meant, and what to type."""

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
"""Error numbers of paths that no file can have, and of pipes and devices without another end."""
LONGEST_SHOWN = 1000
"""The longest path, in characters, that a message has whole."""

ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room and start the same command again"),
    errno.EFBIG: "allow larger files (ulimit -f unlimited, or another disk) and start the same command again",
    errno.EROFS: "choose a folder that can be written to",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "change its permissions, or choose another folder"),
    **dict.fromkeys(PATH_ERRORS, "expected the path of something that is there"),
}
"""Advice for each error number of a file system that refuses to read or write."""

# The exceptions that reading a damaged archive can raise: flipped bits can claim encryption or an unknown compression,
# and NumPy parses the header of an array as an expression.
DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, BadZipFile, zlib.error),
    *(TokenError, SyntaxError, OverflowError),
)


def file_system_message(error: Exception) -> str | None:
    """Returns what the file system refused and how to mend it; None for any other error."""
    if isinstance(error, OSError):
        if error.errno in ADVICE:
            place = f"{_shortened(str(error.filename))}: " if error.filename else ""
            return f"{place}{error.strerror}; {ADVICE[error.errno]}"
        if str(error.strerror).startswith("No usable temporary directory"):
            return f"{error.strerror}; make room there, or set TMPDIR to a folder that can be written to"
        return None
    if type(error).__module__.startswith("tensorflow"):  # its own errors of writing are no OSErrors
        for number, advice in ADVICE.items():
            before, said, _ = str(error).partition(reason := os.strerror(number))
            if said:
                place = re.sub(r"^\{\{.*\}\}", "", before.split("\n")[-1]).strip(" ;")
                return f"{place}: {reason}; {advice}"
    return None


def _shortened(path: str) -> str:
    return path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}... of {len(path)} characters"


def first_line(error: BaseException) -> str:
    """Returns the first line of the text of an error, or its name."""
    return str(error).strip().split("\n")[0] or type(error).__name__


LONGEST_MESSAGE = 4000
"""The most characters of a message, about a screen; a value that is quoted may be a whole file."""


def quoted(value: object) -> str:
    """Returns at most 60 characters of a value as Python writes it, for a message that says what was found."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of thousands of digits"


class InputError(ValueError):
    """An error that the user can mend: in a setting, a path, a file, or a damaged run.

    Args:
        message: where it is (`file:line`, or the key), what was expected and found, and how to mend it. The middle of
            a message that is longer than `LONGEST_MESSAGE` is left out.
    """

    def __init__(self, message: str = "") -> None:
        if len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2 - 25  # room for the words in the middle
            message = f"{message[:half]} [... {len(message) - 2 * half:,} characters ...] {message[-half:]}"
        super().__init__(message)


def import_optional(module: str, otherwise: str) -> Any:
    """Imports a module; raises an `InputError` with the text `otherwise` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(otherwise) from None


class LostWorkerError(Exception):
    """Another worker of a training has ended, hangs, or has not started; the same command continues the training."""


def did_you_mean(key: str, keys: Sequence[str]) -> str:
    """Returns the end of a message about an unknown name or dotted key: "; did you mean KEY?", or nothing if no key is
    near. A key of the same name is suggested, or one of a similar name, in the same section if possible."""
    section, _, name = key.rpartition(".")
    siblings = {known.rpartition(".")[2]: known for known in reversed(keys) if known.rpartition(".")[0] == section}
    everywhere = {known.rpartition(".")[2]: known for known in reversed(keys)}
    if name in everywhere:
        return f"; did you mean {everywhere[name]}?"
    for meant, candidates in ((name, siblings), (name, everywhere), (key, dict(zip(keys, keys, strict=True)))):
        if alike := difflib.get_close_matches(meant, candidates, n=1, cutoff=0.7):
            return f"; did you mean {candidates[alike[0]]}?"
    return ""


SCRIPTS = ("train", "evaluate")  # have a file in the repository's root


def invocation(command: str, *arguments: str | Path) -> str:
    """Returns what a person types: "qkv train --resume 'runs/my run'", or "python train.py ..." after such a script."""
    as_scripts = command in SCRIPTS and Path(sys.argv[0]).name in {f"{name}.py" for name in SCRIPTS}
    program = ["python", f"{command}.py"] if as_scripts else ["qkv", command]
    return shlex.join([*program, *map(str, arguments)])

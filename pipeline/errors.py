"""What a person can get wrong, told in one message and exit status 2."""

import argparse
import errno
import functools
import sys
import zlib
from collections.abc import Callable
from tokenize import TokenError
from typing import NoReturn, Protocol
from zipfile import BadZipFile

REFUSALS = {
    errno.ENOSPC: "make room and start the same command again",
    errno.EDQUOT: "make room and start the same command again",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "change its permissions, or choose another folder",
    errno.EPERM: "change its permissions, or choose another folder",
}
"""What a disk can refuse, and what to do then."""

# What reading a damaged archive raises: bits that are flipped can claim encryption or an unknown compression too, and
# what an array's header says is read as an expression.
DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, BadZipFile, zlib.error),
    *(TokenError, SyntaxError, OverflowError),
)


class InputError(ValueError):
    """Something that the person at the keyboard can mend: a setting, a path, a file, a damaged run.

    The message says what was found, where (`file:line` or the key), what was expected, and how to mend it.
    """


class ArgumentParser(argparse.ArgumentParser):
    """The standard parser, but what is wrong with the arguments is an `InputError` like any other."""

    def error(self, message: str) -> NoReturn:
        """Called by the standard parser."""
        raise InputError(f"{message}; see --help")


class Command(Protocol):
    """A command: `arguments` follow the program's name, by default those of the process; returns the exit status."""

    def __call__(self, arguments: list[str] | None = None) -> int: ...


def exit_cleanly(main: Callable[[list[str]], int | None]) -> Command:
    """Makes a command end as people expect.

    An `InputError` prints `error: ...` and gives 2, a disk that refuses gives 1, Ctrl-C gives 130. `--debug` anywhere
    among the arguments is taken off them and lets every traceback through.

    Args:
        main: takes the arguments after the program's name and returns an exit status, or None for 0.

    Returns:
        A function of the arguments, by default those of the process, that returns the exit status.
    """

    @functools.wraps(main)
    def command(arguments: list[str] | None = None) -> int:
        given = sys.argv[1:] if arguments is None else arguments
        debug = "--debug" in given
        try:
            return main([argument for argument in given if argument != "--debug"]) or 0
        except InputError as error:
            if debug:
                raise
            sys.stderr.write(f"error: {error}\n")
            return 2
        except KeyboardInterrupt:
            if debug:
                raise
            sys.stderr.write("interrupted\n")
            return 130
        except BrokenPipeError:
            sys.stderr.close()  # the reader left (`| head`): that is no error, and flushing again would be
            return 0
        except OSError as error:
            if debug or error.errno not in REFUSALS:
                raise
            place = f"{error.filename}: " if error.filename else ""
            sys.stderr.write(f"error: {place}{error.strerror}; {REFUSALS[error.errno]}\n")
            return 1

    return command

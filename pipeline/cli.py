"""What all commands share: how they read arguments, and how they end."""

import argparse
import functools
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol

from .errors import REFUSALS, InputError


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

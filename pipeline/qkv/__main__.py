"""All commands as one program: `qkv COMMAND ...`, or `qkv --help`."""

import argparse
import sys
from importlib import import_module

from .commands import COMMANDS, GROUPS
from .commands.cli import exit_cleanly
from .errors import InputError, did_you_mean
from .version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Starts the command that the first argument names. Returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in COMMANDS:
        return import_module(f".commands.{given[0]}", __package__).main(given[1:])
    return _explain(given)


@exit_cleanly
def _explain(arguments: list[str]) -> None:
    """Prints the help or the version, or says what is wrong."""
    listed = "\n".join(
        "\n".join([f"{title}:", *(f"  {name:<15}{meaning}" for name, meaning in group.items()), ""])
        for title, group in GROUPS.items()
    )
    parser = argparse.ArgumentParser(
        prog="qkv",
        usage="qkv COMMAND ...",
        description="Trains a small neural translator and shows where its attention went.",
        epilog=f"{listed}\nqkv COMMAND --help explains the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"qkv {__version__}")
    _, others = parser.parse_known_args(arguments)
    if not others:
        parser.print_help()
        return
    raise InputError(f"{others[0]}: no such command{did_you_mean(others[0], [*COMMANDS])}; see qkv --help")


if __name__ == "__main__":
    sys.exit(main())

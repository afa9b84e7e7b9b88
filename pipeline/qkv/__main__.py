"""The program `qkv`, which starts all commands: `qkv COMMAND ...`, or `qkv --help`."""

import argparse
import sys
from importlib import import_module

from .commands import COMMANDS, GROUPS
from .commands.cli import exit_cleanly
from .errors import InputError, did_you_mean
from .version import __version__

EXAMPLES = """\
examples, with a run that is in the package:
  qkv translate demo     then type: the girl does not like the juice .
  qkv live               the same in a browser, with the attention
"""


def main(arguments: list[str] | None = None) -> int:
    """Starts the command that the first argument names.

    Args:
        arguments: the name of the command and its arguments; by default those of the command line.

    Returns:
        The exit status, 0 for success.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments and arguments[0] in COMMANDS:
        return import_module(f".commands.{arguments[0]}", __package__).main(arguments[1:])
    return _explain(arguments)


@exit_cleanly
def _explain(arguments: list[str]) -> None:
    """Prints the help or the version. Raises an `InputError` if the first argument is not a command."""
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {name:<15}{meaning}" for name, meaning in group.items()]
        lines.append("")
    commands = "\n".join(lines)
    parser = argparse.ArgumentParser(
        prog="qkv",
        usage="qkv COMMAND ...",
        description="Trains a small neural translator and shows where its attention went.",
        epilog=f"{EXAMPLES}\n{commands}\nqkv COMMAND --help explains the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"qkv {__version__}")
    _, unknown = parser.parse_known_args(arguments)
    if not unknown:
        parser.print_help()
        return
    raise InputError(f"{unknown[0]}: no such command{did_you_mean(unknown[0], [*COMMANDS])}; see qkv --help")


if __name__ == "__main__":
    sys.exit(main())

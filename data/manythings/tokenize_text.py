"""Divides English and French text into lower-cased words, see `qkv.text.lines.europarl_words`."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.commands.cli import exit_cleanly
from qkv.config.choices.text import EUROPARL_LANGUAGES
from qkv.errors import InputError
from qkv.runtime.streams import write_result
from qkv.text.lines.europarl_words import tokenize
from qkv.text.lines.stream import ArrivingLines


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Runs the command: tokenises standard input line by line."""
    if len(arguments) != 1 or arguments[0] not in EUROPARL_LANGUAGES:
        raise InputError(
            f"expected one language, {' or '.join(EUROPARL_LANGUAGES)}, and text on standard input, found {arguments}"
        )
    for window in ArrivingLines(sys.stdin.buffer).windows():
        write_result("".join(f"{tokenize(line, arguments[0])}\n" for line in window))


if __name__ == "__main__":
    sys.exit(main())

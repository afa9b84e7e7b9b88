"""Divides English and French text into lower-cased words, line by line: see pipeline/text/europarl_words.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.cli import exit_cleanly
from pipeline.config.names import EUROPARL_LANGUAGES
from pipeline.errors import InputError
from pipeline.runtime.streams import write_result
from pipeline.text.arriving_lines import ArrivingLines
from pipeline.text.europarl_words import tokenize


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

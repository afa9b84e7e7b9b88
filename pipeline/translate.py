"""Translates standard input: `python -m pipeline.translate RUN < in.txt > out.txt`, one line out for each line in."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import ArgumentParser, InputError, exit_cleanly
from pipeline.quiet import native_chatter_silenced

WINDOW_LINES = 1000  # translated together, so that memory stays flat however long the input is


def lines_of(stream: BinaryIO) -> Iterator[str]:
    """The lines of a stream of UTF-8; only a line feed ends one.

    Raises:
        InputError: bytes that are not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input:{number}: not UTF-8 (byte {line[error.start]:#04x}); "
                "convert it first, for example with iconv"
            ) from None


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads, translates, writes."""
    parser = ArgumentParser(
        prog="python -m pipeline.translate",
        description="Translates standard input to standard output, one line out for each line in.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run, such as runs/demo")
    parser.add_argument(
        "--checkpoint", choices=("best", "last"), default="best", help="which weights to use (default: best)"
    )
    options = parser.parse_args(arguments)
    with native_chatter_silenced():
        from pipeline.trained_run import load_run  # after --help, which TensorFlow would hold up

    translator = load_run(options.run, options.checkpoint).translator()
    lines = lines_of(sys.stdin.buffer)
    while window := list(islice(lines, WINDOW_LINES)):
        translations = translator.translate(window)
        sys.stdout.buffer.write("".join(f"{translation.text}\n" for translation in translations).encode())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(None))

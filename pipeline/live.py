"""A run as a page on which one types sentences: `python -m pipeline.live RUN --page translator.html`."""

import argparse
import sys
from pathlib import Path

from .cli import ArgumentParser, add_checkpoint_option, add_run_argument, exit_cleanly
from .errors import InputError
from .invocation import invocation
from .runtime.import_tensorflow import importing_tensorflow


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        prog=invocation("live"),
        description="Shows the attention of sentences that one types, and what changes when heads are switched off.",
    )
    add_run_argument(parser)
    add_checkpoint_option(parser)
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write one HTML file with the model inside, which translates greedily in the browser, without a server "
        "and without a network; only a page of the same run is overwritten",
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Writes the page."""
    options = make_parser().parse_args(arguments)
    if options.page is None:
        raise InputError("--page: missing; expected the file to write, such as --page translator.html")
    _write_page(options)


def _write_page(options: argparse.Namespace) -> None:
    with importing_tensorflow():
        from .live_page.model_page import write_model_page
        from .trained_run import load_run

    write_model_page(load_run(options.run, options.checkpoint), options.page)
    sys.stdout.write(f"{options.page}\n")


if __name__ == "__main__":
    sys.exit(main(None))

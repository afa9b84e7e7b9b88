"""Serves an interactive page that translates and shows attention in the browser: `qkv live RUN`."""

import argparse
import socket
import sys
import webbrowser
from contextlib import suppress

from ..config.run import load_trained_run
from ..errors import InputError, quoted
from ..files.run_directory import RunDirectory, default_run
from ..live import choose_models
from .cli import (
    ArgumentParser,
    add_checkpoint_option,
    add_default_run_argument,
    exit_cleanly,
    file_to_write,
    importing_tensorflow,
    whole_number,
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "live",
        description="Opens a page in the browser. There you type sentences, see the attention of every layer and head "
        "over their translations, change it, and see the effect. Several runs are shown side by side. Ctrl-C ends the "
        "command.",
    )
    add_default_run_argument(parser, "runs", "*", "folder of a trained run; up to four")
    add_checkpoint_option(parser, side_by_side=True)
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535),
        default=0,
        metavar="N",
        help="listen on this port; 0: any free port (default: 0)",
    )
    parser.add_argument(
        "--host",
        type=_address,
        default="127.0.0.1",
        metavar="ADDRESS",
        help="listen on this address; with 0.0.0.0, other machines can open the page by its address with the token "
        "(default: 127.0.0.1)",
    )
    parser.add_argument(
        "--allow_host",
        action="append",
        default=[],
        metavar="NAME",
        help="let browsers open the page by this host name too, such as a proxy's; repeatable",
    )
    parser.add_argument("--no_browser", action="store_true", help="print the address, and do not open a browser")
    parser.add_argument(
        "--page",
        type=file_to_write,
        metavar="FILE",
        help="write one HTML file instead, which contains the model and translates offline in the browser, by greedy "
        "search",
    )
    return parser


def _address(text: str) -> str:
    """Checks the address for the server to listen on, and returns it unchanged. Used as the `type` of `add_argument`.

    Raises an `ArgumentTypeError` if the text is not an address. An empty text is refused too: it would mean every
    address of the machine.
    """
    with suppress(OSError, UnicodeError):
        if text and socket.getaddrinfo(text, None):
            return text
    raise argparse.ArgumentTypeError(f"expected an address of this machine, such as 127.0.0.1, found {quoted(text)}")


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Loads the runs, and serves the page until Ctrl-C; with `--page`, writes a file instead."""
    options = make_parser().parse_args(arguments)
    models = choose_models([run.root for run in options.runs or [RunDirectory.open(default_run())]], options.checkpoint)
    if options.page is not None and len(models) > 1:
        raise InputError(f"--page: expected one run with one checkpoint, found {len(models)}")
    for root, checkpoint in models:  # errors are reported before TensorFlow is imported
        RunDirectory(root).check_weights(checkpoint)
        load_trained_run(RunDirectory(root))
    with importing_tensorflow():
        from ..live.server import load_live_runs, serve
        from ..run.trained_run import load_run

    if options.page is not None:
        from ..live.model_page import write_model_page  # not above: the served page does not need it

        write_model_page(load_run(*models[0]), options.page)
        sys.stdout.write(f"{options.page}\n")
        return
    sys.stderr.write("loading, and translating a first sentence\n")
    with serve(load_live_runs(models), host=options.host, port=options.port, allow_hosts=options.allow_host) as page:
        sys.stdout.write(f"{page.address}\n")
        sys.stdout.flush()
        sys.stderr.write("Ctrl-C ends it\n")
        if not options.no_browser:
            webbrowser.open(page.address)
        try:
            page.wait()
        except KeyboardInterrupt:
            sys.stderr.write("ended\n")

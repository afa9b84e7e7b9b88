"""Answers on a page in the browser: `qkv live RUN`."""

import argparse
import socket
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

from ..config.run import load_trained_run
from ..errors import InputError, invocation, quoted
from ..files.run_directory import RunDirectory
from ..live import choose_models
from ..runtime.import_tensorflow import importing_tensorflow
from .cli import ArgumentParser, add_checkpoint_option, exit_cleanly, file_to_write, run_folder, whole_number

DEMO = Path("runs/demo")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "live",
        description="Opens a page on which you type sentences, see the attention of every layer and head over their "
        "translations, change it, and see what that does. Several runs answer side by side. Ctrl-C ends it.",
    )
    parser.add_argument(
        "runs",
        type=run_folder,
        nargs="*",
        metavar="RUN",
        help=f"folder of a trained run; up to four (default: {DEMO}, where it is)",
    )
    add_checkpoint_option(parser, side_by_side=True)
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535),
        default=0,
        metavar="N",
        help="listen on this port; 0: any that is free (default: 0)",
    )
    parser.add_argument(
        "--host",
        type=_address,
        default="127.0.0.1",
        metavar="ADDRESS",
        help="listen on this address; 0.0.0.0 lets other machines ask, by name and token (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--allow_host",
        action="append",
        default=[],
        metavar="NAME",
        help="let browsers call the page by this name too, such as a proxy's; repeatable",
    )
    parser.add_argument("--no_browser", action="store_true", help="print the address, and open no browser")
    parser.add_argument(
        "--page",
        type=file_to_write,
        metavar="FILE",
        help="write one HTML file that holds the model and translates greedily in the browser, offline",
    )
    return parser


def _address(text: str) -> str:
    """Checks an address to listen on, as the `type` of `add_argument`. An empty one would be every address."""
    with suppress(OSError, UnicodeError):
        if text and socket.getaddrinfo(text, None):
            return text
    raise argparse.ArgumentTypeError(f"expected an address of this machine, such as 127.0.0.1, found {quoted(text)}")


def _demo() -> RunDirectory:
    if not DEMO.is_dir():
        raise InputError(
            f"expected the folder of a trained run, and there is no {DEMO} to show instead; train it in a clone of "
            f"qkv: make demo, or {invocation('train', '--config', 'configs/demo.yaml')}"
        )
    return RunDirectory.open(DEMO)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Loads the runs, answers until Ctrl-C."""
    options = make_parser().parse_args(arguments)
    chosen = choose_models([run.root for run in options.runs or [_demo()]], options.checkpoint)
    if options.page is not None and len(chosen) > 1:
        raise InputError(f"--page: expected one run with one checkpoint, found {len(chosen)}")
    for root, checkpoint in chosen:  # wrong ones are told before TensorFlow is loaded
        RunDirectory(root).check_weights(checkpoint)
        load_trained_run(RunDirectory(root))
    with importing_tensorflow():
        from ..live.model_page import write_model_page
        from ..live.server import load_live_runs, serve
        from ..run.trained_run import load_run

    if options.page is not None:
        write_model_page(load_run(*chosen[0]), options.page)
        sys.stdout.write(f"{options.page}\n")
        return
    sys.stderr.write("loading, and translating a first sentence\n")
    with serve(load_live_runs(chosen), host=options.host, port=options.port, allow_hosts=options.allow_host) as page:
        sys.stdout.write(f"{page.address}\n")
        sys.stdout.flush()
        sys.stderr.write("Ctrl-C ends it\n")
        if not options.no_browser:
            webbrowser.open(page.address)
        try:
            page.wait()
        except KeyboardInterrupt:
            sys.stderr.write("ended\n")

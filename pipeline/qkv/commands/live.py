"""Serves an interactive page that translates and shows attention in the browser: `qkv live RUN`.

With `--api`, the page's server also translates for other programs.
"""

import argparse
import logging
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import RunConfig
from ..config.run import load_trained_run, with_decoding_values
from ..errors import InputError, quoted
from ..files.run_directory import RunDirectory, default_run
from ..live import choose_models
from ..text.lines.sentences import SentenceSplitter
from .cli import (
    ArgumentParser,
    add_checkpoint_option,
    add_default_run_argument,
    exit_cleanly,
    file_to_write,
    importing_tensorflow,
    whole_number,
)

if TYPE_CHECKING:
    from ..live.direction import Direction
    from ..run.trained_run import TrainedRun

API_KEY = "QKV_API_KEY"
"""The environment variable with the key of `--api`. An option would show the key in the list of processes."""

LEAST_KEY_CHARACTERS = 16
"""The smallest length of the key: a shorter one could be guessed."""


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
    parser.add_argument(
        "--api",
        action="store_true",
        help=f"also translate for other programs, by LibreTranslate's interface, and open no browser; {API_KEY} in the "
        "environment is the key that they need",
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
    configs = {}
    for root, checkpoint in models:  # errors are reported before TensorFlow is imported
        RunDirectory(root).check_weights(checkpoint)
        configs[root] = load_trained_run(RunDirectory(root))
    api_key = _check_api(options, models, configs) if options.api else None
    with importing_tensorflow():
        from ..live.server import load_live_runs, serve
        from ..run.trained_run import load_run

    if options.page is not None:
        from ..live.model_page import write_model_page  # not above: the served page does not need it

        write_model_page(load_run(*models[0]), options.page)
        sys.stdout.write(f"{options.page}\n")
        return
    sys.stderr.write("loading, and translating a first sentence\n")
    with _ended_by_sigterm() if options.api else nullcontext():
        runs = load_live_runs(models)
        directions = _make_directions([live.run for live in runs]) if options.api else []
        address = {"host": options.host, "port": options.port, "allow_hosts": options.allow_host}
        with serve(runs, **address, directions=directions, api_key=api_key) as page:
            sys.stdout.write(f"{page.address}\n")
            if options.api:
                sys.stdout.write(f"API: {page.address.partition('/?')[0]}\n")
            sys.stdout.flush()
            sys.stderr.write("Ctrl-C ends it\n")
            if not options.no_browser and not options.api:
                webbrowser.open(page.address)
            try:
                page.wait()
            except KeyboardInterrupt:
                sys.stderr.write("ended\n")


def _make_directions(runs: "Sequence[TrainedRun]") -> "list[Direction]":
    """Returns the runs as translators of whole texts, which log nothing that a client sends."""
    from ..live.direction import MOST_ALTERNATIVES, Direction  # not at the top: it imports TensorFlow

    logging.getLogger("qkv.text").setLevel(logging.ERROR)  # its warnings name characters of the text
    search = {"search": "beam", "n_best": 1 + MOST_ALTERNATIVES}
    return [Direction(run, run.with_config(with_decoding_values(run.config, search))) for run in runs]


def _check_api(
    options: argparse.Namespace, models: Sequence[tuple[Path, str]], configs: Mapping[Path, RunConfig]
) -> str | None:
    """Checks what `--api` needs, and returns the key of the environment; None if there is no key.

    Args:
        options: the options of the command.
        models: the models, see `choose_models`.
        configs: the config of each run.

    Raises:
        InputError: `--page` is given, sentencex is not installed, two models have the same languages, the key is too
            short, or other machines could ask without a key.
    """
    if options.page is not None:
        raise InputError("--api: nothing is served with --page; leave out one")
    SentenceSplitter("en")  # raises the error
    roots: dict[tuple[str, str], Path] = {}
    for root, _ in models:
        data = configs[root].data
        languages = data.source_language.lower(), data.target_language.lower()
        if languages in roots:
            raise InputError(
                f"--api: {roots[languages]} and {root} both translate from {languages[0]} to {languages[1]}; expected "
                "runs of different languages, each with one checkpoint"
            )
        roots[languages] = root
    key = os.environ.get(API_KEY)
    if key is None:
        if not _is_loopback(options.host):
            raise InputError(
                f"--host {options.host}: other machines could use the API without a key; set the environment variable "
                f"{API_KEY} to a key of at least {LEAST_KEY_CHARACTERS} characters, or listen on 127.0.0.1"
            )
    elif len(key) < LEAST_KEY_CHARACTERS or not key.isascii() or key != key.strip():
        raise InputError(
            f"{API_KEY}: expected at least {LEAST_KEY_CHARACTERS} characters of ASCII without spaces at the ends, "
            f"found {len(key)}; to make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return key


def _is_loopback(host: str) -> bool:
    """Returns whether all addresses of a host are reached from this machine alone."""
    addresses = {str(address[4][0]).partition("%")[0] for address in socket.getaddrinfo(host, None)}
    return all(ip_address(address).is_loopback for address in addresses)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM is the same as Ctrl-C, and both end the block without an error.

    A service manager sends SIGTERM.
    """
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, previous)

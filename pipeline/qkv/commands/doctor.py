"""Checks a training run before it starts: `qkv doctor CONFIG [--write FILE] [--section.key VALUE ...]`."""

import argparse
import codecs
import logging
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import BaseModel

from ..config import RunConfig
from ..config.run import make_run_config
from ..config.yaml import NOT_YAML, edit_yaml
from ..errors import InputError, invocation
from ..files.atomic import write_output
from ..files.written import refuse_input
from ..run.proposal import propose
from ..run.start import check_config_paths, inputs_of_training
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import OutputHandler
from .cli import ArgumentParser, exit_cleanly, file_to_write
from .train import parse_train_arguments


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, without the settings."""
    parser = ArgumentParser(
        "doctor",
        description="Checks a training run before it starts: settings, text, machine, memory, disk and a few updates. "
        "Takes about a minute, says what training would do and how long it would take, and marks every line that needs "
        "attention with LOOK. Leaves no files behind but FILE. Options replace settings of CONFIG, as in training: "
        f"{invocation('train')} --help lists them.",
        usage=f"{invocation('doctor')} CONFIG [--write FILE] [--section.key VALUE ...]",
    )
    parser.add_argument("config", metavar="CONFIG", help="a config file, such as configs/demo.yaml")
    parser.add_argument(
        "--write",
        type=file_to_write,
        metavar="FILE",
        help="write CONFIG with the proposed settings to this file, which may be CONFIG; comments stay "
        "(default: nothing is written)",
    )
    return parser


def edited_config(path: Path, settings: Mapping[str, Any]) -> bytes:
    """Returns the content of a config file with other settings, by dotted key; comments and line ends stay.

    Raises:
        InputError: the file cannot be read any more, or not be edited so that only these settings change.
    """
    try:
        content = path.read_bytes()
        mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
        return mark + edit_yaml(content.removeprefix(mark).decode(), settings).encode()
    except OSError as error:
        raise InputError(f"{path}: cannot be read any more: {error.strerror}; nothing was written") from None
    except NOT_YAML as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: a proposal cannot be written into it: {reason}; write each value there plainly, as key: value on "
            "one line, or leave out --write and set the proposed keys by hand"
        ) from None


def check_can_be_edited(config: Path) -> None:
    """Raises an `InputError` if a proposal cannot be written into the text of the config."""
    example = propose(pairs=1, tokens_per_pair=1, minutes=1, work_per_second=1).settings()
    edited_config(config, dict.fromkeys(example, "proposed"))


def write_proposal(path: Path, file: Path, config: RunConfig, settings: Mapping[str, Any]) -> None:
    """Writes a config file with proposed settings, by dotted key, into a file, which may be the same.

    Args:
        path: of the config file.
        file: to write.
        config: the settings that were checked, options included.
        settings: the proposed ones.

    Raises:
        InputError: the proposed settings contradict others, or the config file cannot be read or edited any more.
    """
    try:
        make_run_config(config.model_dump(), {}, str(config.run.name), settings, "proposal")
    except InputError as error:
        raise InputError(f"{file}: not written, since the proposal contradicts other settings: {error}") from None
    as_it_was = edited_config(path, {})
    content = edited_config(path, settings)
    write_output(file, content)
    sys.stdout.write(f"{file}: written{' as it was, for nothing better is proposed' if content == as_it_was else ''}\n")


@contextmanager
def minding_interrupts() -> Iterator[None]:
    """Raises a `KeyboardInterrupt` at the end of the block if there was one within it, which TensorFlow may swallow."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupted:
        raise KeyboardInterrupt


def describe_exports(model: BaseModel) -> Iterator[str]:
    """Yields a setting that has no counterpart in a program for which runs are exported, if there is one, for each."""
    from ..exchange.compatibility import STANDARD_TRANSFORMER, check_supported
    from ..exchange.marian_export import SUPPORTED

    programs = {"CTranslate2": STANDARD_TRANSFORMER, "Hugging Face's Marian": SUPPORTED}
    for program, supported in programs.items():
        try:
            check_supported(model, supported, program, "model")
        except InputError as error:
            yield str(error)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the settings, and if they are valid imports TensorFlow, checks the run and prints the findings."""
    if {"-h", "--help"} & set(arguments):
        make_parser().print_help()
        return
    if not arguments or arguments[0].startswith("-"):
        raise InputError("expected a config file, such as configs/demo.yaml; see --help")
    given, overrides = make_parser().parse_known_args(arguments)
    config = parse_train_arguments(["--config", given.config, *overrides]).config
    check_config_paths(config)
    if given.write is not None:
        refuse_input(given.write, inputs_of_training(config), "--write")
    if given.write is not None:
        check_can_be_edited(Path(given.config))
    logging.basicConfig(handlers=[OutputHandler()])
    proposed: Mapping[str, Any] = {}
    with minding_interrupts():
        with importing_tensorflow():
            from ..run.doctor import CheckupLine, check_up
        for line in chain(check_up(config), (CheckupLine("export", text) for text in describe_exports(config.model))):
            sys.stdout.write(f"{line.subject:<12}{'' if line.fine else 'LOOK: '}{line.text}\n")
            sys.stdout.flush()
            proposed = {**proposed, **(line.settings or {})}
    if given.write is not None:
        write_proposal(Path(given.config), given.write, config, proposed)

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
from ..runtime.streams import OutputHandler
from .cli import ArgumentParser, exit_cleanly, file_to_write, importing_tensorflow
from .train import parse_train_arguments


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, without the options of settings such as `--model.d_model`."""
    parser = ArgumentParser(
        "doctor",
        description="Checks a training run before it starts: settings, text, machine, memory, disk and a few updates. "
        "Takes about a minute, prints what training would do and how long it would take, and marks every line that "
        "you should look at with LOOK. Writes no files except FILE. Options replace settings of CONFIG, as in "
        f"training: {invocation('train')} --help lists them.",
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
    """Returns the content of a config file with changed settings. Its comments and line ends are preserved.

    Args:
        path: the config file.
        settings: new values by dotted key.

    Raises:
        InputError: the file cannot be read, or it cannot be edited so that only these settings change.
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
    """Raises an `InputError` if a config file cannot be read, or cannot be edited to have proposed settings."""
    example = propose(pairs=1, tokens_per_pair=1, minutes=1, work_per_second=1).settings()
    edited_config(config, dict.fromkeys(example, "proposed"))


def write_proposal(path: Path, output: Path, config: RunConfig, settings: Mapping[str, Any]) -> None:
    """Writes a copy of a config file with the proposed settings, and prints a line about it.

    Args:
        path: the config file.
        output: the file to write, which may be the config file.
        config: the settings that were checked: those of the config file, changed by options.
        settings: the proposed values by dotted key.

    Raises:
        InputError: the proposed settings contradict others, or the config file cannot be read or edited.
        OSError: the output file cannot be written.
    """
    try:
        make_run_config(config.model_dump(), {}, str(config.run.name), settings, "proposal")
    except InputError as error:
        raise InputError(f"{output}: not written, since the proposal contradicts other settings: {error}") from None
    old_content = edited_config(path, {})
    content = edited_config(path, settings)
    write_output(output, content)
    note = " without changes, since nothing better is proposed" if content == old_content else ""
    sys.stdout.write(f"{output}: written{note}\n")


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Makes sure that Ctrl-C within the block raises a `KeyboardInterrupt`, at the latest at the end of the block.

    Without this, Ctrl-C has no effect if TensorFlow catches the `KeyboardInterrupt`.
    """
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
    """Yields a message for each program, CTranslate2 or Hugging Face, to which a model cannot be exported.

    The message names a setting of the model that the program does not support.

    Args:
        model: the settings of section `model`.
    """
    from ..exchange.compatibility import STANDARD_TRANSFORMER, check_supported
    from ..exchange.marian_export import SUPPORTED_BY_MARIAN

    programs = {"CTranslate2": STANDARD_TRANSFORMER, "Hugging Face's Marian": SUPPORTED_BY_MARIAN}
    for program, supported in programs.items():
        try:
            check_supported(model, supported, program, "model")
        except InputError as error:
            yield str(error)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the settings, checks the run, and prints the findings.

    TensorFlow is imported once the settings are valid.
    """
    if {"-h", "--help"} & set(arguments):
        make_parser().print_help()
        return
    if not arguments or arguments[0].startswith("-"):
        raise InputError("expected a config file, such as configs/demo.yaml; see --help")
    options, overrides = make_parser().parse_known_args(arguments)
    config = parse_train_arguments(["--config", options.config, *overrides]).config
    check_config_paths(config)
    if options.write is not None:
        refuse_input(options.write, inputs_of_training(config), "--write")
        check_can_be_edited(Path(options.config))
    logging.basicConfig(handlers=[OutputHandler()])
    proposed: Mapping[str, Any] = {}
    with raising_interrupts():
        with importing_tensorflow():
            from ..run.doctor import CheckupLine, check_up
        export_lines = (CheckupLine("export", message) for message in describe_exports(config.model))
        for line in chain(check_up(config), export_lines):
            sys.stdout.write(f"{line.subject:<12}{'' if line.fine else 'LOOK: '}{line.text}\n")
            sys.stdout.flush()
            proposed = {**proposed, **(line.settings or {})}
    if options.write is not None:
        write_proposal(Path(options.config), options.write, config, proposed)

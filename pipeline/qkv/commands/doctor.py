"""Checks a training run before it starts: `qkv doctor CONFIG [--write FILE] [--section.key VALUE ...]`."""

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..config.yaml import edit_yaml
from ..errors import InputError, invocation
from ..files.atomic import write_output
from ..files.written import refuse_input
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


def write_proposal(config: str, file: Path, settings: Mapping[str, Any]) -> None:
    """Writes a config file with proposed settings, by dotted key, into a file, which may be the same."""
    try:
        text = edit_yaml(before := Path(config).read_bytes().decode("utf-8-sig"), settings)
    except ValueError as error:
        raise InputError(f"{config}: the proposal cannot be written into it: {error}; set the keys by hand") from None
    write_output(file, text.encode())
    sys.stdout.write(f"{file}: written{'' if text != before else ' as it was, for nothing better is proposed'}\n")


def describe_exports(model: BaseModel) -> Iterator[str]:
    """Yields a setting that has no counterpart in a program for which runs are exported, if there is one, for each."""
    from ..exchange.counterpart import STANDARD_TRANSFORMER, check_settings
    from ..exchange.marian_export import SUPPORTED

    programs = {"CTranslate2": STANDARD_TRANSFORMER, "Hugging Face's Marian": SUPPORTED}
    for program, supported in programs.items():
        try:
            check_settings(model, supported, program, "model")
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
    logging.basicConfig(handlers=[OutputHandler()])
    with importing_tensorflow():
        from ..run.checkup import CheckupLine, check_up

    proposed: Mapping[str, Any] = {}
    for line in chain(check_up(config), (CheckupLine("export", text) for text in describe_exports(config.model))):
        sys.stdout.write(f"{line.subject:<12}{'' if line.fine else 'LOOK: '}{line.text}\n")
        sys.stdout.flush()
        proposed = line.settings or proposed
    if given.write is not None:
        write_proposal(given.config, given.write, proposed)

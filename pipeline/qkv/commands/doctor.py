"""Checks a training run before it starts: `qkv doctor CONFIG [--section.key VALUE ...]`."""

import argparse
import logging
import sys

from ..errors import InputError, invocation
from ..run.start import check_config_paths
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import OutputHandler
from .cli import ArgumentParser, exit_cleanly
from .train import parse_train_arguments


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, without the settings."""
    parser = ArgumentParser(
        "doctor",
        description="Checks a training run before it starts: settings, text, machine, memory, disk and a few updates. "
        "Takes about a minute, says what training would do and how long it would take, and marks every line that needs "
        "attention with LOOK. Leaves no files behind. Options replace settings of CONFIG, as in training: "
        f"{invocation('train')} --help lists them.",
        usage=f"{invocation('doctor')} CONFIG [--section.key VALUE ...]",
    )
    parser.add_argument("config", metavar="CONFIG", help="a config file, such as configs/demo.yaml")
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the settings, and if they are valid imports TensorFlow, checks the run and prints the findings."""
    if {"-h", "--help"} & set(arguments):
        make_parser().print_help()
        return
    if not arguments or arguments[0].startswith("-"):
        raise InputError("expected a config file, such as configs/demo.yaml; see --help")
    config = parse_train_arguments(["--config", *arguments]).config
    check_config_paths(config)
    logging.basicConfig(handlers=[OutputHandler()])
    with importing_tensorflow():
        from ..run.checkup import check_up

    for line in check_up(config):
        label = "" if line.fine else "LOOK: "
        sys.stdout.write(f"{line.subject:<12}{label}{line.text}\n")
        sys.stdout.flush()

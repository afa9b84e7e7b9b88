"""Checks a training run before it starts: `qkv doctor CONFIG [--section.key VALUE ...]`."""

import logging
import sys

from ..errors import InputError, invocation
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import OutputHandler
from .cli import DEBUG_HELP, PLUGINS_HELP, exit_cleanly
from .command_paths import check_config_paths
from .train import parse_train_arguments

HELP = f"""usage: {invocation("doctor")} CONFIG [--section.key VALUE ...]

Checks a training run before it starts: settings, text, machine, memory, disk and a few updates. Takes about a minute,
says what training would do and how long it would take, and marks every line that needs attention with LOOK. Leaves no
files behind.

  CONFIG                  a config file, for example configs/demo.yaml
  --section.key VALUE     replaces a setting of CONFIG, as in training; {invocation("train")} --help lists all settings
  --plugins FILE          {PLUGINS_HELP}
  --debug                 {DEBUG_HELP}
"""


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the settings, and if they are valid imports TensorFlow, checks the run and prints the findings."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(HELP)
        return
    if not arguments or arguments[0].startswith("-"):
        raise InputError("expected a config file, such as configs/demo.yaml; see --help")
    config = parse_train_arguments(["--config", *arguments]).config
    check_config_paths(config)
    logging.basicConfig(handlers=[OutputHandler()])
    with importing_tensorflow():
        from ..run.ancestor import take_ancestor
        from ..training.checkup import check_up

    for line in check_up(config, take_ancestor):
        label = "" if line.fine else "LOOK: "
        sys.stdout.write(f"{line.subject:<12}{label}{line.text}\n")
        sys.stdout.flush()

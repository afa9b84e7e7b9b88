"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .cli import exit_cleanly, log_to_output
from .command_paths import check_config_paths
from .config import RunConfig
from .config.command_line import parse_train_arguments
from .runtime.import_tensorflow import importing_tensorflow

if TYPE_CHECKING:
    import keras


def train(config: RunConfig, resume: Path | None = None, callbacks: Sequence["keras.callbacks.Callback"] = ()) -> int:
    """Trains a new run, or continues one.

    Args:
        config: all settings; if a run is resumed, its own settings.
        resume: the folder of the run to continue, or None for a new run.
        callbacks: further callbacks; `pipeline.training.loop` says what they are given.

    Returns:
        The exit status: 0, or 130 where the run was interrupted and can be resumed.

    Raises:
        InputError: the text, the run or its checkpoint does not fit the settings, or BLEU cannot be computed here.
    """
    with importing_tensorflow():
        from .run_training import run_training

    return run_training(config, resume, callbacks)


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and says where the results are. TensorFlow is loaded only once they are valid."""
    settings = parse_train_arguments(arguments)
    if not settings.resume:
        check_config_paths(settings.config)
    log_to_output()
    return train(settings.config, resume=settings.resume)


if __name__ == "__main__":
    sys.exit(main(None))

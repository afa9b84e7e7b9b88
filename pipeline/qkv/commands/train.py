"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import RunConfig
from ..config.command_line import parse_train_arguments
from ..errors import InputError, LostWorkerError, invocation
from ..runtime.cluster import meet, read_cluster
from ..runtime.import_tensorflow import importing_tensorflow
from .cli import exit_cleanly, log_to_output
from .command_paths import check_config_paths

if TYPE_CHECKING:
    import keras

TELLING_MINUTES = 1.0


def train(config: RunConfig, resume: Path | None = None, callbacks: Sequence["keras.callbacks.Callback"] = ()) -> int:
    """Trains a new run, or continues one.

    Args:
        config: all settings; if a run is resumed, its own settings.
        resume: the folder of the run to continue, or None for a new run.
        callbacks: further callbacks; `qkv.training.loop` says what they are given.

    Returns:
        The exit status: 0, or 130 where the run was interrupted and can be resumed.

    Raises:
        InputError: the text, the run or its checkpoint does not fit the settings, or BLEU cannot be computed here.
        LostWorkerError: of several workers, another one has ended, hangs, or has not started.
    """
    with importing_tensorflow():
        from ..run.training import run_training

    return run_training(config, resume, callbacks)


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and says where the results are. TensorFlow is loaded only once they are valid."""
    try:
        settings = parse_train_arguments(arguments)
        if not settings.resume:
            check_config_paths(settings.config)
        log_to_output()
    except InputError as error:
        _tell_other_workers(str(error))
        raise
    try:
        return train(settings.config, resume=settings.resume)
    except LostWorkerError as error:
        raise LostWorkerError(
            f"{error}; give the same command again on every worker, and training continues:\n"
            f"  {invocation('train')} {shlex.join(arguments)}"
        ) from error


def _tell_other_workers(mistake: str) -> None:
    """Ends the other workers of this training, which would wait for this one."""
    if cluster := read_cluster():
        with suppress(LostWorkerError):
            meet(cluster, mistake, TELLING_MINUTES)

"""A run on disk, and `train`, which makes one. In reading order:

- `trained_run`, `ensemble`: finished runs, opened, alone or together
- `manifest`: what a run was made from, with digests
- `weights`: weights of a file from anywhere, checked
- `ancestor`: the run that a training starts from
- `processes`: the work of a run over several processes of this machine
- `start`: a training before it starts: a new run, or one that was started before
- `training`: one training, from its settings to `model.keras`
- `batches`, `load_model`: the batches of a training, and its model, for Keras
- `doctor`, `proposal`: a training checked before it starts, and the model that would suit the time
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..config import RunConfig
from ..runtime.import_tensorflow import importing_tensorflow

if TYPE_CHECKING:
    import keras


def train(
    config: RunConfig,
    resume: Path | None = None,
    callbacks: "Sequence[keras.callbacks.Callback] | None" = None,
    stream: TextIO | None = None,
) -> int:
    """Trains a new run, or continues one.

    Args:
        config: all settings; if a run is resumed, its own settings.
        resume: the folder of the run to continue, or None for a new run.
        callbacks: further callbacks, or None; `qkv.training.loop` says what they are given.
        stream: where the progress is written; standard output by default.

    Returns:
        The exit status: 0, or 130 where the run was interrupted and can be resumed.

    Raises:
        InputError: the text, the run or its checkpoint does not fit the settings, BLEU cannot be computed here, or the
            training loop cannot call one of the callbacks.
        LostWorkerError: of several workers, another one has ended, hangs, or has not started.
    """
    with importing_tensorflow():
        from .training import run_training

    return run_training(config, resume, callbacks, stream)

"""A run: the folder of a training, with its config, tokenizer, model and results.

`train` makes a run, and `trained_run` loads it.

The modules, in reading order:

- `start`: the settings of a training, read and checked before TensorFlow is loaded
- `training`: one training, from the settings to `model.keras`
- `ancestor`: the copy of the run that a training starts from
- `weights`: the checks of a file of weights, and its loading
- `manifest`: `manifest.json`, with the origin of a run, digests of its files and a golden output
- `trained_run`: a finished run, ready to translate
- `ensemble`: several finished runs that translate together
- `processes`: the work of a finished run in several processes of this machine
- `doctor`: the checkup of a training before it starts
- `proposal`: the settings proposed for a training of a given number of minutes
- `keras_batches`: the batches of a training for `fit` of Keras
- `saving`: models in memory as runs, and the folder of such a run
- `load_model`: the Keras model of a run
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..config import RunConfig
from ..runtime.import_tensorflow import importing_tensorflow

if TYPE_CHECKING:
    import keras

    from ..text.corpora.pairs_in_memory import SpooledPairs
__all__ = ["train"]


def train(
    config: RunConfig,
    resume: Path | None = None,
    callbacks: "Sequence[keras.callbacks.Callback] | None" = None,
    stream: TextIO | None = None,
    pairs: "SpooledPairs | None" = None,
) -> int:
    """Trains a new run, or continues a run.

    Args:
        config: all settings; for a run that is continued, the settings of the run.
        resume: the folder of the run to continue; None for a new run.
        callbacks: further callbacks, or None; `qkv.training.loop` lists the arguments of their methods.
        stream: the stream to which the progress is written; by default standard output.
        pairs: the pairs to train on, if the training files of the config are their copies in the run; otherwise None.

    Returns:
        The exit status: 0, or 130 if the training was interrupted and can be continued.

    Raises:
        InputError: the text, the run or its checkpoint does not fit the settings, BLEU cannot be computed on this
            machine, or the training loop cannot call one of the callbacks.
        LostWorkerError: another worker of the same training has ended, hangs, or has not started.
    """
    with importing_tensorflow():
        from .training import run_training

    return run_training(config, resume, callbacks, stream, pairs)

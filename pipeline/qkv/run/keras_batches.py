"""The batches of training as Keras' `fit` takes them."""

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp

import keras
import numpy as np
import tensorflow as tf

from ..config import RunConfig, load_run_config
from ..config.run import load_started_run
from ..errors import InputError
from ..files.paths import as_path
from ..files.run_directory import RunDirectory
from ..text.batch import Batch
from ..text.batch_plan import batches_by_length
from ..text.training_text import TrainingText, load_text
from ..training.batch_size import PROCESSOR_TOKENS
from ..training.batches import TrainingBatches
from ..training.build import build_batches
from .training import prepare

SPLITS = "train", "validation"


def batches(config: RunConfig | str | Path, split: str = "train") -> "KerasBatches":
    """Makes the batches of a config, or of a run, for `fit` and `evaluate` of Keras.

    The text of a config is prepared in a temporary folder; a run has it already, which saves time where it is large.
    Random numbers are seeded as a training does, so that a model made next begins with the same weights.

    Args:
        config: a config, the path of one, or the folder of a run.
        split: "train" for the batches of training, shuffled anew in each epoch, or "validation".

    Raises:
        InputError: the config or its text has a mistake, or there is no such split.
    """
    if split not in SPLITS:
        raise InputError(f"split: expected {' or '.join(SPLITS)}, found {split!r:.60}")
    folder = None
    if not isinstance(config, RunConfig):
        config = as_path(config, "config", "a config, the path of one, or the folder of a run")
    if isinstance(config, Path) and config.is_dir():
        run = RunDirectory.open(config)
        config = load_started_run(run.config)
        text = load_text(config, run)
        keras.utils.set_random_seed(config.run.seed)
    else:
        config = config if isinstance(config, RunConfig) else load_run_config(config)
        folder = Path(mkdtemp())
        text = prepare(config, RunDirectory(folder))[1]
    size = config.batches.batch_tokens
    whole = tf.distribute.OneDeviceStrategy("CPU:0")  # Keras divides batches among replicas itself
    made = build_batches(config, text, whole, PROCESSOR_TOKENS if size == "auto" else size)
    dataset = KerasBatches(made, text, split)
    if folder is not None:
        weakref.finalize(dataset, shutil.rmtree, folder, ignore_errors=True)
    return dataset


class KerasBatches(keras.utils.PyDataset):
    """Batches `((source_ids, target_ids), target_output)`, int32 `(B, S)`, `(B, T)` and `(B, T)`, see `Batch`.

    In training, each epoch has its own order, as in `train.py`; pass `shuffle=False` to `fit`, which would shuffle it
    once more. A `fit` that starts at epoch 0 goes on with the epoch after those that were read; one that starts later,
    by `initial_epoch` or `BackupAndRestore`, reads the batches of that epoch. That is done by `follow_epochs`, a
    callback that `fit` of a `TranslationModel` adds, and that other models must be given. Batches are made by threads,
    as many as `workers`; processes are refused, since they would never hear that an epoch ends.

    Under a strategy of several replicas, in whose scope the batches are made, sentences of nothing but padding fill
    each batch up to a multiple of the replicas.

    Every epoch has as many batches as the first: where segmentations or a mixture of corpora are sampled,
    the last batches of an epoch may be missing, or its first ones come twice.

    Args:
        made: makes the training batches of any epoch.
        text: the text.
        split: one of `SPLITS`.

    Attributes:
        text: the text; `text.tokenizer.vocabulary_size` is what a model needs.
        epoch: the epoch whose batches are read, from 0; may be set between epochs.
    """

    def __init__(self, made: TrainingBatches, text: TrainingText, split: str) -> None:
        super().__init__()
        self.text = text
        self._epoch = 0
        self._made = made
        self._shuffles = split == "train"
        self._replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self._reading = False  # within a pass
        self._read_last = False  # since the last pass ended
        self._plan()
        self._count = len(self._rows)

    def _plan(self) -> None:
        """Plans the epoch, as a whole, so that threads can ask for any of its batches."""
        if self._shuffles:
            self._pairs = self._made.pairs(self.epoch)
            self._rows = list(self._made.plan(self.epoch).batches())
        else:
            self._pairs = self.text.validation_pairs
            source, target = (side.lengths + 1 for side in self._pairs.sides)
            self._rows = batches_by_length(source, target)

    @property
    def epoch(self) -> int:
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch = epoch
            if self._shuffles:
                self._plan()

    @property
    def use_multiprocessing(self) -> bool:
        return False

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        if value:
            raise InputError(
                "use_multiprocessing: a copy in another process would read epoch 0 for ever; set workers alone, the "
                "number of threads"
            )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        batch = self._batch(index)
        self._read_last |= index == self._count - 1
        if not self._reading and index == 1:
            # Keras looks at two batches before it fits, and takes lengths on which they agree for those of all.
            pairs = zip(batch.ids, self._batch(0).ids, strict=True)
            ids = (np.pad(x, ((0, 0), (0, int(x.shape[1] == first.shape[1])))) for x, first in pairs)
            batch = Batch(*ids)
        return (batch.source, batch.target_input), batch.target_output

    def _batch(self, index: int) -> Batch:
        batch = self._made.make(self._pairs, self._rows[index % len(self._rows)])
        return batch.map(lambda ids: np.pad(ids, ((0, -len(ids) % self._replicas), (0, 0))))

    def on_epoch_begin(self) -> None:
        self._reading = True

    def on_epoch_end(self) -> None:
        complete = self._reading and self._read_last  # Keras also ends passes that it has not begun, or not read
        self._reading = self._read_last = False
        if complete:
            self.epoch += 1

    def follow_epochs(self) -> keras.callbacks.Callback:
        """Makes a callback that moves to the epoch at which `fit` starts; a new one is needed for each `fit`."""
        return FirstEpoch(self)


class FirstEpoch(keras.callbacks.Callback):
    """Moves batches to the epoch at which `fit` starts, before any of them is read.

    Args:
        batches: the batches.
    """

    def __init__(self, batches: KerasBatches) -> None:
        super().__init__()
        self._batches = batches
        self._next: int | None = batches.epoch  # Keras may read batches to build the model; None once `fit` has begun

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self._next is not None:
            steps = self.params["steps"]  # fewer than there are batches with `steps_per_epoch`
            self._batches.epoch = epoch * steps // len(self._batches) if epoch else self._next
            self._next = None

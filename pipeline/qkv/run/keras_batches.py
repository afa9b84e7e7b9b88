"""The batches of a training as a data set for `fit` of Keras."""

import logging
import shutil
import weakref
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..config import RunConfig, load_run_config
from ..config.run import load_started_run
from ..errors import InputError
from ..files.paths import as_path
from ..files.run_directory import RunDirectory
from ..text.batch import Batch, make_batch
from ..text.batch_plan import batches_by_length
from ..text.corpora.formats import read_parallel_files
from ..text.corpora.pairs_in_memory import spool_pairs
from ..text.tokens.encoding import encode_pairs
from ..text.tokens.run_tokenizer import load_tokenizer
from ..text.training_text import TrainingText, load_text
from ..training.batch_size import PROCESSOR_TOKENS
from ..training.batches import TrainingBatches
from ..training.build import build_batches
from .training import prepare

log = logging.getLogger(__name__)
SPLITS = "train", "validation"
"""The parts of the text that `batches` reads."""


def batches(config: RunConfig | str | Path, split: str = "train", pairs: Any = None) -> "KerasBatches":
    """Makes the batches of a config, of a run, or of pairs in memory, for `fit` and `evaluate` of Keras.

    The text of a config is prepared in a temporary folder. The text of a run is read from its folder, which is faster.
    Pairs are encoded by the tokenizer of a run, to train or to evaluate its model further.
    The random generators are seeded as at the start of a training, so a model that is built next has the same initial
    weights.

    Args:
        config: a `RunConfig`, the path of a config file, or the folder of a run.
        split: `train` for the batches of training, shuffled again in each epoch; or `validation`.
        pairs: sentence pairs in one of the forms of `qkv.train`, which are read instead of the text of a run; None for
            the text. Their word links are not read. Empty and too long pairs are left out.

    Raises:
        InputError: the config, its text or the pairs have a mistake, `split` has another value, or `pairs` are given
            without the folder of a run.
    """
    if split not in SPLITS:
        raise InputError(f"split: expected {' or '.join(SPLITS)}, found {split!r:.60}")
    folder = None
    if not isinstance(config, RunConfig):
        config = as_path(config, "config", "a config, the path of one, or the folder of a run")
    if isinstance(config, Path) and config.is_dir():
        run = RunDirectory.open(config)
        config = load_started_run(run.config)
        if pairs is None and run.is_saved():
            raise InputError(
                f"{run.root}: the run was saved from Python, without encoded text: give pairs=..., or the folder of "
                "the run whose text it was trained on"
            )
        text = load_text(config, run) if pairs is None else _encode_in_memory(config, run, pairs)
        keras.utils.set_random_seed(config.run.seed)
    else:
        if pairs is not None:
            raise InputError(
                "pairs: expected the folder of a run beside them, such as run.path, whose tokenizer encodes them; "
                "qkv.train(config, pairs=...) trains a new one"
            )
        config = config if isinstance(config, RunConfig) else load_run_config(config)
        folder = Path(mkdtemp())
        run = RunDirectory(folder)
        text = prepare(config, run)[1]
    size = config.batches.batch_tokens
    whole = tf.distribute.OneDeviceStrategy("CPU:0")  # Keras divides batches among replicas itself
    training_batches = build_batches(config, text, whole, PROCESSOR_TOKENS if size == "auto" else size)
    dataset = KerasBatches(training_batches, text, split, run)
    if folder is not None:
        weakref.finalize(dataset, shutil.rmtree, folder, ignore_errors=True)
    return dataset


def _encode_in_memory(config: RunConfig, run: RunDirectory, pairs: Any) -> TrainingText:
    """Encodes pairs in memory by the tokenizer of a run. They are both splits of the text that is returned.

    Raises:
        InputError: the pairs have another form, see `text.corpora.pairs_in_memory.spool_pairs`; or none is left.
    """
    data = config.data
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    with TemporaryDirectory(prefix="qkv-pairs-") as folder:
        spooled = spool_pairs(pairs, Path(folder), (data.source_language, data.target_language)).spooled_files()
        corpus = read_parallel_files(spooled["source"], spooled["target"]).in_memory()
    encoded = encode_pairs(corpus, tokenizer)
    source, target = (side.lengths for side in encoded.sides)
    fits = (source > 0) & (source <= data.max_source_tokens) & (target > 0) & (target <= data.max_target_tokens)
    rows = np.flatnonzero(fits)
    if not len(rows):
        raise InputError(
            "pairs: expected pairs with text on both sides, within data.max_source_tokens and data.max_target_tokens, "
            "found none"
        )
    if len(rows) < len(corpus):
        log.info("pairs: %d of %d are empty or too long and left out", len(corpus) - len(rows), len(corpus))
    encoded = encoded.select(rows)
    return TrainingText(tokenizer, [encoded], corpus.select(rows), encoded)


class KerasBatches(keras.utils.PyDataset):
    """A Keras data set of batches `((source, target_input), target_output)`.

    The arrays are int32 `(B, S)`, `(B, T)` and `(B, T)`: B sentences, S source positions, T target positions. A source
    ends in EOS, a target input starts with BOS, and a target output is the target input shifted by one position.

    If `batches.packed` is true, training batches are `((source, target_input, source_segments, target_segments),
    target_output)`, with B rows of several sentence pairs each, and all have the same shape. Validation batches are
    never packed.

    The training batches of each epoch have another order, as in `train.py`. Pass `shuffle=False` to `fit`; otherwise it
    shuffles the batches again.

    The callback of `follow_epochs` chooses the epoch at which `fit` begins to read. A `fit` that starts at epoch 0
    continues after the last epoch that was read. A `fit` that starts later, by `initial_epoch` or `BackupAndRestore`,
    begins with that epoch. `fit` of a `TranslationModel` adds the callback; add it yourself for other models.

    The attribute `workers` of Keras is the number of threads that make the batches. `use_multiprocessing` must be
    False, since a copy in another process would not notice the end of an epoch.

    If the object is made in the scope of a strategy with several replicas, each batch is filled with empty sentences
    up to a multiple of the number of replicas.

    Every epoch has as many batches as the first. If segmentations or a mixture of corpora are sampled, an epoch may
    lack its last batches or repeat its first batches.

    Args:
        training_batches: makes the training batches of any epoch.
        text: the prepared text.
        split: `train` or `validation`.
        directory: the folder of the run with the text; a temporary one for the text of a config.

    Attributes:
        directory: as the argument.
        text: the prepared text; `text.tokenizer.vocabulary_size` is the vocabulary size for a model.
        epoch: the index of the epoch whose batches are read, from 0. It may be set between epochs.
    """

    def __init__(
        self, training_batches: TrainingBatches, text: TrainingText, split: str, directory: RunDirectory
    ) -> None:
        super().__init__()
        self.text = text
        self.directory = directory
        self._epoch = 0
        self._training_batches = training_batches
        self._shuffles = split == "train"
        self._replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self._reading = False  # whether a pass has begun and not ended
        self._read_last = False  # whether the last batch was read since the last pass ended
        self._plan()
        self._count = len(self._rows)

    def _plan(self) -> None:
        """Chooses the pairs of all batches of the epoch in advance, since threads read the batches in any order."""
        if self._shuffles:
            plan = self._training_batches.plan(self.epoch)
            self._pairs = self._training_batches.pairs(self.epoch)
            self._rows = list(plan.batches())
            self._tokens = plan.tokens
        else:
            self._pairs = self.text.validation_pairs
            source, target = (side.lengths + 1 for side in self._pairs.sides)
            self._rows = batches_by_length(source, target)
            self._tokens = int(source.sum() + target.sum())

    def __repr__(self) -> str:
        """Returns the split, and the sizes of the epoch. Tokens are source and target tokens with EOS, not padding."""
        split = "train" if self._shuffles else "validation"
        sentences = sum(int((rows >= 0).sum()) for rows in self._rows)  # packed rows are filled up with -1
        sizes = f"{self._count:,} batches, {sentences:,} sentences, {self._tokens:,} tokens an epoch"
        return f"<KerasBatches {split}: {sizes}>"

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
        """Always False: only threads can make the batches. Setting it to True raises an `InputError`."""
        return False

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        if value:
            raise InputError(
                "use_multiprocessing: expected False, since a copy in another process would always read epoch 0; set "
                "only workers, the number of threads"
            )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        batch = self._batch(index)
        self._read_last |= index == self._count - 1
        if batch.source_segments is not None and batch.target_segments is not None:
            return (batch.source, batch.target_input, batch.source_segments, batch.target_segments), batch.target_output
        if not self._reading and index == 1:
            # Keras reads two batches before it fits. If they have the same length, it assumes this length for all.
            arrays = []
            for ids, first_ids in zip(batch.ids, self._batch(0).ids, strict=True):
                has_same_length = ids.shape[1] == first_ids.shape[1]
                arrays.append(np.pad(ids, ((0, 0), (0, 1))) if has_same_length else ids)
            batch = Batch(*arrays)
        return (batch.source, batch.target_input), batch.target_output

    def _batch(self, index: int) -> Batch:
        """Returns a batch of the epoch, filled with empty sentences up to a multiple of the number of replicas.

        Args:
            index: the index of the batch, from 0. After the last batch of the epoch the first one follows.
        """
        rows = self._rows[index % len(self._rows)]
        if self._shuffles:
            batch = self._training_batches.make(self._pairs, rows)
        else:
            batch = make_batch(self._pairs, rows, self._training_batches.length_multiple)
        return batch.map(lambda array: np.pad(array, ((0, -len(array) % self._replicas), *[(0, 0)] * (array.ndim - 1))))

    def on_epoch_begin(self) -> None:
        self._reading = True

    def on_epoch_end(self) -> None:
        # Keras also calls this for passes that it has not begun or not read.
        complete = self._reading and self._read_last
        self._reading = self._read_last = False
        if complete:
            self.epoch += 1

    def follow_epochs(self) -> keras.callbacks.Callback:
        """Returns a callback that sets `epoch` when a `fit` starts; see the class. Each `fit` needs a new callback."""
        return FirstEpoch(self)


class FirstEpoch(keras.callbacks.Callback):
    """A callback that sets the epoch of a `KerasBatches` when a `fit` starts, before it reads a batch.

    Args:
        batches: the batches of this `fit`.
    """

    def __init__(self, batches: KerasBatches) -> None:
        super().__init__()
        self._batches = batches
        # The epoch of a `fit` from epoch 0, kept since Keras may read batches to build the model; None after the start.
        self._next: int | None = batches.epoch

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self._next is not None:
            steps = self.params["steps"]  # fewer than the batches of an epoch if `steps_per_epoch` is given
            self._batches.epoch = epoch * steps // len(self._batches) if epoch else self._next
            self._next = None

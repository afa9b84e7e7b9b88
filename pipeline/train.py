"""A run from its settings to its model: prepares the text, builds the model, trains it, and leaves `model.keras`."""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import keras

from .config import RunConfig
from .config.run import dump
from .decoding.build import build_translator
from .decoding.search import GreedySearch
from .decoding.translator import Translator
from .files import replaced_when_done, write_atomically
from .inspection.recorder import AttentionRecorder
from .model.build import build_model
from .run_directory import RunDirectory
from .runtime.devices import is_chief, make_strategy, resolve_precision
from .runtime.memory import keep_freed_memory
from .text.prepare import TrainingText, load_text, prepare_text
from .trained_run.manifest import write_manifest
from .training.best_weights import KeptWeights, keep_best_weights
from .training.build import (
    build_checkpoints,
    build_optimizer,
    build_training,
    hyperparameters,
)
from .training.callbacks.probe_archive import ProbeArchive
from .training.callbacks.profile import Profile
from .training.callbacks.progress import History, ProgressLine
from .training.callbacks.projector import write_projector
from .training.callbacks.tensorboard import TensorBoard
from .training.checkpoint import Progress
from .training.checkpoint_folder import Checkpoints
from .training.loop import INTERRUPTED, Training

log = logging.getLogger(__name__)


def train(config: RunConfig, resume: Path | None = None, callbacks: Sequence[keras.callbacks.Callback] = ()) -> int:
    """Trains a new run, or goes on with one.

    Args:
        config: all settings; those of the run itself where one is resumed.
        resume: the folder of the run to go on with, or None.
        callbacks: further callbacks, see `pipeline.training.loop` for what they are told.

    Returns:
        The exit status: 0, or 130 where it was interrupted and can be resumed.

    Raises:
        InputError: the text, the run or its checkpoint is not what the settings say.
    """
    keep_freed_memory()
    strategy = make_strategy()
    keras.utils.set_random_seed(config.run.seed)
    chief = is_chief(strategy)
    with _run_directory(config, resume, chief) as run:
        if not run.config.is_file():  # first, so that the same command finds what it began
            write_atomically(run.config, dump(config).encode())
        text = load_text(config, run) if run.corpus_report.is_file() else prepare_text(config, run)
        with strategy.scope():
            model = build_model(
                config.model, text.tokenizer.vocabulary_size, resolve_precision(config.training.precision)
            )
            optimizer = build_optimizer(config, model)
        checkpoints = build_checkpoints(config, run)
        begun = checkpoints.all() or run.model.is_file()
        progress = checkpoints.restore(model, optimizer) if begun else Progress()
        if chief:
            write_atomically(run.config, dump(config).encode())  # with what may have changed
            if not begun:
                _forget(run)
        # By greedy search, which is fast, whatever the config says of the finished model.
        translator = build_translator(model, text.tokenizer, config, GreedySearch())
        training = build_training(config, text, model, optimizer, strategy, translator, checkpoints if chief else None)
        if run.model.is_file() and (reason := training.finished(progress)):
            log.info(
                "%s is trained already: %d updates (%s). To train it longer raise that limit, where the learning rate "
                "does not end with it; for another run give --run.name NAME",
                run.root,
                progress.update,
                reason,
            )
            return 0
        own = _callbacks(config, run, translator, training, progress) if chief else []
        reason = training.run(progress, [*own, *callbacks])
        interrupted = reason == INTERRUPTED
        if chief and interrupted:
            log.info(
                "\ninterrupted after %d updates; go on with:\n  python train.py --resume %s", progress.update, run.root
            )
        elif chief:
            kept = keep_best_weights(config, model, checkpoints, progress, training.validate)
            _finish(config, run, text, model, kept, progress, reason)
        return 130 if interrupted else 0


@contextmanager
def _run_directory(config: RunConfig, resume: Path | None, chief: bool) -> Iterator[RunDirectory]:
    """The run's folder. One that goes away for workers that write nothing that lasts, and where nothing was trained."""
    if resume:
        run = RunDirectory.open(resume)
        with run.locked() if chief else nullcontext():
            yield run
    elif chief:
        assert config.run.name  # the command line's own doing
        run = RunDirectory.create(config.run.directory / config.run.name)
        try:
            with run.locked():
                yield run
        except BaseException:
            if not Checkpoints(run.checkpoints).all():
                shutil.rmtree(run.root)  # or the corrected command would be refused, since the run exists
            raise
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield RunDirectory(Path(folder))


def _forget(run: RunDirectory) -> None:
    """Takes away what was told of a training that was killed before its first checkpoint."""
    run.history.unlink(missing_ok=True)
    for folder in (run.tensorboard, run.probes):
        shutil.rmtree(folder, ignore_errors=True)


def _callbacks(
    config: RunConfig, run: RunDirectory, translator: Translator, training: Training, progress: Progress
) -> list[keras.callbacks.Callback]:
    """Those of the worker that writes."""
    probes = [(probe.source, probe.reference) for probe in config.inspection.probes]
    tracer = AttentionRecorder(training.model, translator.tokenizer, max_positions=translator.max_positions)
    profiled = config.inspection.profile_updates
    return [
        *([Profile(run.tensorboard, profiled)] if profiled else []),
        ProgressLine(training.limits, training.batches.updates(training.batches.full_epoch)),
        History(run.history, progress),
        TensorBoard(run.tensorboard, translator, tracer, probes, hyperparameters(config), progress.update),
        ProbeArchive(run.probes, tracer, probes, progress.update),
    ]


def _finish(
    config: RunConfig,
    run: RunDirectory,
    text: TrainingText,
    model: keras.Model,
    kept: KeptWeights,
    progress: Progress,
    reason: str,
) -> None:
    """Leaves the model as `model.keras`, and says what to do with it."""
    with replaced_when_done(run.model) as temporary:
        model.save(temporary)
    vectors = keras.ops.convert_to_numpy(model.output_embedding.table)
    write_projector(run.tensorboard, text.tokenizer.pieces(range(len(vectors))), vectors)
    write_manifest(config, run, model, text.tokenizer, kept)
    log.info(
        "trained for %d updates in %.1f minutes (%s); the best was %s with %s %.2f on validation\n"
        "results: %s\nnext:\n  python evaluate.py %s\n  tensorboard --logdir %s",
        progress.update,
        progress.seconds / 60,
        reason,
        *kept,
        run.root,
        run.root,
        run.root.parent,
    )

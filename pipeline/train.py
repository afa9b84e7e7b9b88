"""A run from its settings to its model: prepares the text, builds the model, trains it, and leaves `model.keras`."""

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import keras

from pipeline.assembly import (
    configured_checkpoints,
    configured_optimizer,
    configured_training,
    hyperparameters,
)
from pipeline.config import RunConfig, dump
from pipeline.decoding.search import GreedySearch
from pipeline.decoding.translator import Translator
from pipeline.inspection.trace import Tracer
from pipeline.manifest import KeptWeights, write_manifest
from pipeline.model.build import build_model
from pipeline.run_directory import RunDirectory, replaced_when_done, write_atomically
from pipeline.text.prepare import TrainingText, load_text, prepare_text
from pipeline.trained_run import make_translator
from pipeline.training.callbacks import History, ProgressLine
from pipeline.training.checkpoint import Checkpoints, Progress, load_checkpoint, load_mean
from pipeline.training.device import is_chief, make_strategy, resolve_precision
from pipeline.training.loop import INTERRUPTED, Training, is_better
from pipeline.training.memory import keep_freed_memory
from pipeline.training.probe_archive import ProbeArchive
from pipeline.training.profile import Profile
from pipeline.training.projector import write_projector
from pipeline.training.tensorboard import TensorBoard

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
            optimizer = configured_optimizer(config, model)
        checkpoints = configured_checkpoints(config, run)
        begun = checkpoints.all() or run.model.is_file()
        progress = checkpoints.restore(model, optimizer) if begun else Progress()
        if chief:
            write_atomically(run.config, dump(config).encode())  # with what may have changed
            if not begun:
                _forget(run)
        # By greedy search, which is fast, whatever the config says of the finished model.
        translator = make_translator(model, text.tokenizer, config, GreedySearch())
        training = configured_training(
            config, text, model, optimizer, strategy, translator, checkpoints if chief else None
        )
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
            kept = _best_weights(config, model, checkpoints, progress, training.validate)
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
    tracer = Tracer(training.model, translator.tokenizer, max_positions=translator.max_positions)
    profiled = config.inspection.profile_updates
    return [
        *([Profile(run.tensorboard, profiled)] if profiled else []),
        ProgressLine(training.limits, training.batches.updates(training.batches.full_epoch)),
        History(run.history, progress),
        TensorBoard(run.tensorboard, translator, tracer, probes, hyperparameters(config), progress.update),
        ProbeArchive(run.probes, tracer, probes, progress.update),
    ]


def _best_weights(
    config: RunConfig,
    model: keras.Model,
    checkpoints: Checkpoints,
    progress: Progress,
    validate: Callable[[], dict[str, float]],
) -> KeptWeights:
    """Puts the weights that are best on validation into the model, and says which they are."""
    metric = config.training.early_stopping.metric
    assert progress.best_metric is not None  # training ends with a validation
    which, count = config.training.average_of, config.training.average_checkpoints
    paths = checkpoints.recent()[-count:] if which == "last" else checkpoints.best_few(progress)
    if min(len(paths), count) > 1:
        load_mean(paths, model)
        value = validate()[f"val_{metric}"]
        log.info(
            "validation %s: %.2f for the mean of the %s %d checkpoints, %.2f for the best single one",
            metric,
            value,
            which,
            len(paths),
            progress.best_metric,
        )
        if is_better(metric, value, progress.best_metric):
            return KeptWeights(f"the mean of the {which} {len(paths)} checkpoints", metric, value)
    load_checkpoint(checkpoints.best, model)
    return KeptWeights(f"update {progress.best_update}", metric, progress.best_metric)


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

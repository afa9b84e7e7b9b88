"""One training, from the settings to `model.keras`.

It opens the folder of the run, prepares the text, builds the model, and trains.
"""

import logging
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import keras
import tensorflow as tf

from ..config import RunConfig
from ..config.run import dump, flat_settings
from ..decoding.build import build_translator
from ..decoding.greedy import GreedySearch
from ..errors import LostWorkerError, invocation
from ..files.atomic import replaced_when_done
from ..files.json import read_json_object
from ..files.run_directory import RunDirectory
from ..metrics.bleu import check_bleu_tokenizer, count_words, explain_low_bleu
from ..model.freezing import describe_parameters
from ..runtime.compiled_programs import keep_programs
from ..runtime.devices import choose_devices, describe_devices, make_strategy, resolve_precision, slow_precision
from ..runtime.machine import keep_freed_memory
from ..runtime.workers import Workers, join_workers, noticing_lost_workers
from ..text.corpora.held_out import with_held_out_files
from ..text.corpora.pairs_in_memory import SpooledPairs
from ..text.corpora.provenance import (
    check_prepared,
    check_same_settings,
    data_sha256,
    pairs_origin,
    prepared_sha256,
    recorded_sha256,
)
from ..text.prepare import prepare_text
from ..text.training_text import TrainingText, load_text
from ..training.batches import TrainingBatches
from ..training.build import (
    build_batches_and_step,
    build_checkpoints,
    build_model_and_optimizer,
    build_schedule,
    build_training,
    build_validation,
)
from ..training.callbacks import check_callbacks
from ..training.callbacks.build import build_callbacks, callback_params, make_callbacks
from ..training.callbacks.tensorboard import count_ids, write_projector
from ..training.checkpoints import Checkpoints, keep_best_weights
from ..training.progress import Progress
from ..training.seeds import separate_replica_seeds
from ..training.stopping import INTERRUPTED, StoppingRules, training_advice
from ..training.worker_checks import (
    SingleProcess,
    check_equal_settings,
    check_equal_text,
    restore_together,
    wait_for_text,
)
from .ancestor import Ancestor, take_ancestor
from .manifest import write_manifest

ROUNDS = 10
"""The number of times that `_appears` looks for a file."""
ROUND_SECONDS = 0.5
"""The seconds between two of these times."""
log = logging.getLogger(__name__)


def run_training(
    config: RunConfig,
    resume: Path | None,
    callbacks: Sequence[keras.callbacks.Callback] | None,
    stream: TextIO | None,
    pairs: SpooledPairs | None,
) -> int:
    """Trains a new run, or continues a run. The arguments, result and errors are those of `qkv.run.train`."""
    callbacks = check_callbacks(callbacks)
    check_bleu_tokenizer(config.data.scoring_tokenizer)
    keep_freed_memory()
    keep_programs(config.training.xla)
    choose_devices(config.run.devices, config.run.deterministic)
    joined = join_workers()
    workers = joined or SingleProcess()
    with noticing_lost_workers(joined):
        strategy = start_devices(config)
        # The folder of runs may differ between machines.
        common = config.model_dump(mode="json", exclude={"run": {"directory"}})
        check_equal_settings(workers, dict(flat_settings(common)))
        assert config.run.name  # the command line has set it
        wait_for_text(workers)
        with open_run_folder(config.run.directory / config.run.name, resume, writes=workers.is_chief) as run:
            # Made first, so that a mistake in the config is reported before the text is prepared.
            config_callbacks = make_callbacks(config, run) if workers.is_chief else []
            ancestor, text = prepare(config, run, pairs)
            if not isinstance(workers, SingleProcess):
                check_equal_text(
                    workers, data_sha256(with_held_out_files(config, run).data, run) | prepared_sha256(run)
                )
            schedule = build_schedule(config, strategy)
            model, optimizer = build_model_and_optimizer(config, text.tokenizer.vocabulary_size, schedule, strategy)
            checkpoints = build_checkpoints(config, run)
            progress = restore(config, run, checkpoints, model, optimizer, workers, ancestor)
            separate_replica_seeds(model, strategy)
            batches, step = build_batches_and_step(config, text, model, optimizer, strategy, progress)
            _report_start(model, batches)
            # A training has many validations, so they use greedy search, which is fast, and not the config's search.
            translator = build_translator(model, text.tokenizer, config, GreedySearch())
            validate = build_validation(config, text, translator, model)
            training = build_training(config, step, batches, schedule, validate, checkpoints, workers)
            is_trained = workers.broadcast_from_chief(run.is_trained(), "to look at the run")
            if is_trained and training.stopping.reason(progress, progress.seconds):
                if workers.is_chief:
                    _report_trained(run, progress, training.stopping)
                return 0
            run_callbacks = []
            if workers.is_chief:
                run.manifest.unlink(missing_ok=True)  # until the longer training is complete
                run_callbacks = build_callbacks(config, run, translator, training, progress, text.validation, stream)
            try:
                reason = training.run(
                    progress, [*run_callbacks, *config_callbacks, *callbacks], callback_params(config, run, batches)
                )
            finally:
                step.forget_gradients()
            if reason == INTERRUPTED:
                if workers.is_chief:
                    _report_interrupted(run, progress, saved=bool(checkpoints.all()))
                return 130
            if workers.is_chief:
                metric = training.stopping.metric
                averaged = config.training.average_checkpoints
                weights, value = keep_best_weights(
                    model, checkpoints, progress, validate, metric=metric, average_checkpoints=averaged
                )
                _save_model(config, run, text, model, {"weights": weights, "validation": {metric: value}})
                log.info(
                    "trained for %d updates in %.1f minutes (%s); the best was %s with %s %.2f on validation",
                    progress.update,
                    progress.seconds / 60,
                    reason,
                    weights,
                    metric,
                    value,
                )
                _report_finished(config, run, text, progress)
            workers.broadcast_from_chief(None, "to save the model")
            return 0


def start_devices(config: RunConfig) -> tf.distribute.Strategy:
    """Seeds the random generators, logs the devices and advice about them, and returns the strategy of the devices."""
    strategy = make_strategy()
    keras.utils.set_random_seed(config.run.seed)
    precision = resolve_precision(config.training.precision)
    log.info("%s", describe_devices(precision))
    if advice := slow_precision(precision):
        log.warning("%s", advice)
    return strategy


@contextmanager
def open_run_folder(root: Path, resume: Path | None, writes: bool) -> Iterator[RunDirectory]:
    """Opens the folder of a run for the time of its training.

    If the block fails before the first checkpoint of a new run, the folder is deleted, so that the same command can
    start again. After a `LostWorkerError` the folder stays: the same command then continues with the prepared text.

    Args:
        root: the folder of a new run.
        resume: the folder of the run to continue; None for a new run.
        writes: True if this worker writes the run and locks it. Other workers only read it. A worker that does not see
            the folder gets a temporary folder.

    Yields:
        The folder.

    Raises:
        InputError: a new run exists already, the run to continue does not exist, another process trains the run, or
            parts of it are links.
    """
    if not writes:
        run = RunDirectory(resume or root)
        if _appears(run.corpus_report):
            yield run
            return
        with tempfile.TemporaryDirectory() as folder:
            yield RunDirectory(Path(folder))
    elif resume:
        run = RunDirectory.open(resume)
        with run.locked():
            run.check_writable()
            run.delete_leftovers()
            yield run
    else:
        run = RunDirectory.create(root)
        with run.locked():
            run.check_unused()  # another process may have trained it before the lock
            run.delete_leftovers()
            try:
                yield run
            except BaseException as error:
                if not (isinstance(error, LostWorkerError) or Checkpoints(run.checkpoints).all()):
                    run.delete()  # otherwise the corrected command is refused, since the run exists
                raise


def _appears(path: Path) -> bool:
    """Waits up to 5 seconds for a file, since a shared folder may show it late; returns whether it exists."""
    for _ in range(ROUNDS):
        if path.is_file():
            return True
        time.sleep(ROUND_SECONDS)
    return path.is_file()


def prepare(
    config: RunConfig, run: RunDirectory, pairs: SpooledPairs | None = None
) -> tuple[Ancestor | None, TrainingText]:
    """Writes the config, copies pairs in memory and the ancestor of a run into it, and prepares the text.

    If the run has a prepared text already, it is read.

    Args:
        config: all settings.
        run: the folder of the run.
        pairs: the pairs to train on, whose copies in the run are the training files of the config; None if the config
            names other files.

    Returns:
        `(ancestor, text)`: the copy of the ancestor, None if `training.start_from` is null; and the prepared text.

    Raises:
        InputError: the ancestor or the text cannot be read, or the text was prepared with other settings.
    """
    if not run.config.is_file():  # before anything else, so that the same command finds the run
        run.write_config(dump(config))
    if pairs is not None:
        pairs.copy_into(run)
    ancestor = take_ancestor(config, run)
    keras.utils.set_random_seed(config.run.seed)  # loading a model has drawn random numbers
    if not run.corpus_report.is_file():
        return ancestor, prepare_text(config, run)
    check_same_settings(config, run)
    check_prepared(run)
    return ancestor, load_text(config, run)


def restore(
    config: RunConfig,
    run: RunDirectory,
    checkpoints: Checkpoints,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    workers: Workers,
    ancestor: Ancestor | None,
) -> Progress:
    """Loads the newest checkpoint of a run into model and optimizer.

    If the run has no checkpoint yet, the weights of the ancestor are loaded, if there is an ancestor.

    The chief also writes the config again. It deletes superseded checkpoints of a run that continues, and the records
    of an earlier training in the folder of a run that starts.

    Args:
        config: all settings.
        run: the folder of the run.
        checkpoints: the checkpoints of the run.
        model: the model.
        optimizer: the optimizer.
        workers: the workers of the training.
        ancestor: the copy of the ancestor, or None.

    Returns:
        The progress of the training at the checkpoint.

    Raises:
        InputError: the checkpoint or the copy of the ancestor is damaged, or does not fit the model.
        LostWorkerError: another worker has ended, hangs, or has not started.
    """
    started = bool(checkpoints.all()) or run.model.is_file()
    if ancestor is not None and not started:
        ancestor.load(model)
    progress = restore_together(workers, checkpoints, model, optimizer, started)
    if workers.is_chief:
        run.write_config(dump(config))  # a resumed run may have new limits
        if started:
            checkpoints.delete_superseded()
        else:
            run.delete_records()
    return progress


def _save_model(
    config: RunConfig, run: RunDirectory, text: TrainingText, model: keras.Model, origin: dict[str, Any]
) -> None:
    """Writes `model.keras`, the vectors for TensorBoard and, last, the manifest, which marks the run as trained."""
    with replaced_when_done(run.model) as temporary:
        model.save(temporary)
    vectors = keras.ops.convert_to_numpy(model.output_embedding.table)
    languages = config.data.source_language, config.data.target_language
    sides = zip(languages, text.segmentations[0].sides, strict=True)
    counts = {language: count_ids(side.ids, len(vectors)) for language, side in sides}
    write_projector(run, text.tokenizer.pieces(range(len(vectors))), vectors, counts)
    origin = origin | {"data_sha256": recorded_sha256(run), **pairs_origin(run)}
    if run.ancestor.is_file():
        origin["started_from"] = read_json_object(run.ancestor)
    write_manifest(config, run, model, text.tokenizer, origin)


def _report_start(model: keras.Model, batches: TrainingBatches) -> None:
    """Logs the size and precision of the model, and the number and padding of the batches of an epoch."""
    plan = batches.plan(0)
    log.info(
        "%s in %s; %d batches an epoch, %.1f %% of their positions are padding",
        describe_parameters(model),
        model.dtype_policy.name,
        plan.count,
        100 * plan.padding_share,
    )


def _report_trained(run: RunDirectory, progress: Progress, stopping: StoppingRules) -> None:
    """Logs that a run is trained already, and the command for a longer training."""
    ending = stopping.ending(progress, progress.seconds)
    assert ending is not None
    if ending.resumes:
        purpose = "to continue it"
        options: list[str | Path] = ["--resume", run.root, *ending.option.split(" ")]
    else:
        purpose = "for a longer run"
        options = ["--config", run.config, *ending.option.split(" "), "--run.name", f"{run.root.name}-longer"]
    message = "%s is trained already, with %d updates: %s; %s:\n  %s"
    log.info(message, run.root, progress.update, ending.because, purpose, invocation("train", *options))


def _report_interrupted(run: RunDirectory, progress: Progress, saved: bool) -> None:
    """Logs that the training was interrupted, and the command that continues it.

    Args:
        run: the folder of the run.
        progress: the progress of the training.
        saved: True if there is a checkpoint. Otherwise the command starts the training again.
    """
    advice = "continue" if saved else "their speed was not measured yet, so start again"
    command = invocation("train", "--resume", run.root)
    log.info("\ninterrupted after %d updates; %s with:\n  %s", progress.update, advice, command)


def _report_finished(config: RunConfig, run: RunDirectory, text: TrainingText, progress: Progress) -> None:
    """Logs advice about the finished training, the folder of its results, and the next commands."""
    settings = config.training
    if progress.split_updates or progress.loss_scale.get("skipped"):
        message = "%d updates were computed in parts, since they did not fit into memory; %d were left out in float16"
        log.info(message, progress.split_updates, progress.loss_scale.get("skipped", 0))
    stopping = settings.early_stopping
    if advice := training_advice(progress, settings.warmup_updates, stopping.metric, stopping.patience):
        log.info("%s", advice)
    best = progress.best_validation
    tokenizer = config.data.scoring_tokenizer
    words = count_words(text.validation.target, tokenizer)
    if advice := explain_low_bleu(best["val_bleu"], best["val_token_accuracy"], words, tokenizer):
        log.info("%s", advice)
    log.info(
        "results: %s\nnext:\n  %s\n  tensorboard --logdir %s",
        run.root,
        invocation("evaluate", run.root, *([] if config.data.test else ["--set", "validation"])),
        shlex.quote(str(run.root.parent)),
    )

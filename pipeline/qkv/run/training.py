"""One training: opens its folder, prepares the text, builds the model, runs the loop, and saves `model.keras`."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras

from ..config import RunConfig
from ..config.names.training import SCHEDULES
from ..decoding.build import build_translator
from ..decoding.search import GreedySearch
from ..errors import invocation
from ..files.atomic import replaced_when_done
from ..files.run_directory import RunDirectory
from ..metrics.bleu import check_bleu_tokenizer
from ..metrics.low_bleu import count_words, explain_low_bleu
from ..runtime.devices import choose_devices
from ..runtime.machine import keep_freed_memory
from ..runtime.workers import Workers, join_workers, noticing_lost_workers
from ..text.prepare import TrainingText
from ..training.advice import how_to_lengthen, shortcoming
from ..training.best_weights import KeptWeights, keep_best_weights
from ..training.build import build_checkpoints, build_model_and_optimizer, build_training
from ..training.callbacks.build import build_callbacks, callback_params, make_callbacks
from ..training.callbacks.projector import write_projector
from ..training.checkpoint import Progress
from ..training.known_batches import known_batches
from ..training.replica_seeds import give_replicas_own_seeds
from ..training.run_folder import open_run_folder
from ..training.same_start import check_same_settings, wait_for_text
from ..training.stopping import INTERRUPTED, StoppingRules
from ..training.worker_agreement import Agreement
from .manifest import write_manifest
from .training_start import compared_settings, read_same_text, restore, start_devices

log = logging.getLogger(__name__)


def run_training(config: RunConfig, resume: Path | None, callbacks: Sequence[keras.callbacks.Callback]) -> int:
    """Trains a new run, or continues one: see `qkv.commands.train.train`."""
    check_bleu_tokenizer(config.data.scoring_tokenizer)
    keep_freed_memory()
    choose_devices(config.run.devices, config.run.deterministic)
    workers = join_workers()
    with noticing_lost_workers(workers):
        return _run_training(config, resume, callbacks, workers)


def _run_training(
    config: RunConfig, resume: Path | None, callbacks: Sequence[keras.callbacks.Callback], workers: Workers | None
) -> int:
    strategy = start_devices(config)
    chief = workers is None or workers.is_chief
    assert config.run.name  # the command line has set it
    check_same_settings(workers, compared_settings(config))
    root, wait = config.run.directory / config.run.name, partial(wait_for_text, workers)
    with open_run_folder(root, resume, writes=chief, wait=wait) as run:
        named = make_callbacks(config, run) if chief else []  # before all else, so that a mistake is told at once
        ancestor, text = read_same_text(config, run, workers)
        model, optimizer = build_model_and_optimizer(config, text.tokenizer.vocabulary_size, strategy)
        checkpoints = build_checkpoints(config, run)
        progress = restore(config, run, checkpoints, model, optimizer, workers, ancestor)
        give_replicas_own_seeds(model, strategy)
        agreement, parts = Agreement(strategy, workers), (text, model, optimizer)
        known, progress.batch_tokens = known_batches(config, *parts, strategy, progress.batch_tokens)
        # Validations are many, so they use greedy search, which is fast, whatever the config sets for the model.
        translator = build_translator(model, text.tokenizer, config, GreedySearch())
        training = build_training(known, *parts, agreement, translator, checkpoints if chief else None)
        is_trained = agreement.of_chief(run.is_trained(), "to look at the run")
        if is_trained and training.stopping.reason(progress, progress.seconds):
            if chief:
                _report_trained(config, run, progress, training.stopping)
            return 0
        if chief:
            run.manifest.unlink(missing_ok=True)  # until the longer training is complete
        own = build_callbacks(config, run, translator, training, progress, text.validation) if chief else []
        training.callback_params = callback_params(config, run, training)
        reason = training.run(progress, [*own, *named, *callbacks])
        if reason == INTERRUPTED:
            if chief:
                _report_interrupted(run, progress, saved=bool(checkpoints.all()))
            return 130
        if chief:
            kept = keep_best_weights(config, model, checkpoints, progress, training.validate)
            _save_model(config, run, text, model, kept)
            _report_finished(config, run, text, progress, reason, kept)
        agreement.of_chief(None, "to save the model")
        return 0


def _save_model(
    config: RunConfig, run: RunDirectory, text: TrainingText, model: keras.Model, kept: KeptWeights
) -> None:
    """Writes `model.keras`, the vectors for TensorBoard and, last, the manifest, which marks the run as trained."""
    with replaced_when_done(run.model) as temporary:
        model.save(temporary)
    vectors = keras.ops.convert_to_numpy(model.output_embedding.table)
    write_projector(run.tensorboard, text.tokenizer.pieces(range(len(vectors))), vectors)
    write_manifest(config, run, model, text.tokenizer, kept)


def _report_trained(config: RunConfig, run: RunDirectory, progress: Progress, stopping: StoppingRules) -> None:
    ends_at_zero = SCHEDULES[config.training.schedule].ends_at_zero
    longer = how_to_lengthen(progress, stopping.limits, stopping.patience, ends_at_zero)
    if longer.resumes:
        how, where = "to continue it", f"--resume {run.root} {longer.option}"
    else:
        how, where = "for a longer run", f"--config {run.config} {longer.option} --run.name {run.root.name}-longer"
    message = "%s is trained already, with %d updates: %s; %s:\n  %s %s"
    log.info(message, run.root, progress.update, longer.because, how, invocation("train"), where)


def _report_interrupted(run: RunDirectory, progress: Progress, saved: bool) -> None:
    how = "continue" if saved else "their speed was not measured yet, so start anew"
    message = "\ninterrupted after %d updates; %s with:\n  %s --resume %s"
    log.info(message, progress.update, how, invocation("train"), run.root)


def _report_finished(
    config: RunConfig, run: RunDirectory, text: TrainingText, progress: Progress, reason: str, kept: KeptWeights
) -> None:
    settings = config.training
    log.info(
        "trained for %d updates in %.1f minutes (%s); the best was %s with %s %.2f on validation",
        progress.update,
        progress.seconds / 60,
        reason,
        *kept,
    )
    if progress.split_updates or progress.loss_scale.get("skipped"):
        message = "%d updates were computed in parts, since they did not fit into memory; %d were left out in float16"
        log.info(message, progress.split_updates, progress.loss_scale.get("skipped", 0))
    stopping = settings.early_stopping
    if advice := shortcoming(progress, settings.warmup_updates, stopping.metric, stopping.patience):
        log.warning("%s", advice)
    best, tokenizer = progress.best_validation, config.data.scoring_tokenizer
    words = count_words(text.validation.target, tokenizer)
    if advice := explain_low_bleu(best["val_bleu"], best["val_token_accuracy"], words, tokenizer):
        log.warning("%s", advice)
    log.info(
        "results: %s\nnext:\n  %s %s%s\n  tensorboard --logdir %s",
        run.root,
        invocation("evaluate"),
        run.root,
        "" if config.data.test else " --set validation",
        run.root.parent,
    )

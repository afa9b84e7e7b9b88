"""From settings to the parts that train: what each setting of batches and training is for, in one place."""

import logging
import math
from typing import Any

import keras
import tensorflow as tf

from pipeline.config import RunConfig, flat_settings
from pipeline.decoding.reader import make_reader
from pipeline.decoding.translator import Translator
from pipeline.evaluation.likelihood import LikelihoodMeter
from pipeline.evaluation.validation import Validation
from pipeline.run_directory import RunDirectory
from pipeline.text.prepare import TrainingText
from pipeline.training.checkpoint import Checkpoints
from pipeline.training.device import batches_at_once, parts_of_batch
from pipeline.training.guided_attention import Guidance
from pipeline.training.input import TrainingBatches
from pipeline.training.loop import Limits, Training
from pipeline.training.optimizer import make_optimizer
from pipeline.training.schedule import WarmupSchedule
from pipeline.training.step import Update

COMPARED = ("tokenizer", "batches", "model", "training", "decoding")

log = logging.getLogger(__name__)


def configured_optimizer(config: RunConfig, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer with its learning rate's schedule, built for the model. To be made in the strategy's scope."""
    settings = config.training
    schedule = WarmupSchedule(settings.schedule, settings.learning_rate, settings.warmup_updates, settings.max_updates)
    made = make_optimizer(
        settings.optimizer,
        schedule,
        beta_1=settings.beta_1,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
        ema_decay=settings.ema_decay,
    )
    made.build(model.trainable_variables)
    return made


def configured_batches(config: RunConfig, text: TrainingText, strategy: tf.distribute.Strategy) -> TrainingBatches:
    """The batches of every epoch."""
    return TrainingBatches(
        text.segmentations,
        strategy,
        batch_tokens=config.batches.batch_tokens,
        start_tokens=config.batches.start_tokens,
        doubling_epochs=config.batches.doubling_epochs,
        # no padding beyond the last position
        length_multiple=math.gcd(config.batches.length_multiple, config.model.max_positions),
        seed=config.run.seed,
        accumulated=config.batches.accumulated,
    )


def configured_update(
    config: RunConfig, model: keras.Model, optimizer: keras.optimizers.Optimizer, batches: TrainingBatches
) -> Update:
    """The graph of an update."""
    return Update(
        model,
        optimizer,
        batches.strategy,
        batches.signature,
        label_smoothing=config.training.label_smoothing,
        clip_norm=config.training.clip_norm,
        r_drop=config.training.r_drop,
        accumulating=batches.accumulated > 1,
        guidance=_guidance(config),
        parts=parts_of_batch(),
    )


def _guidance(config: RunConfig) -> Guidance | None:
    settings = config.training.guided_attention
    return Guidance(**settings.model_dump()) if settings else None


def configured_validation(
    config: RunConfig, text: TrainingText, translator: Translator, model: keras.Model
) -> Validation:
    """What is measured of the model between updates."""
    meter = LikelihoodMeter(
        make_reader(model),
        *text.validation_pairs.sides,
        max_positions=config.model.max_positions,
        workers=batches_at_once(),
    )
    if meter.too_long:
        log.warning("%d validation pairs are too long for model.max_positions: not in the loss", meter.too_long)
    return Validation(meter, translator, text.validation, tokenized=config.data.tokenized)


def configured_training(
    config: RunConfig,
    text: TrainingText,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    translator: Translator,
    checkpoints: Checkpoints | None,
) -> Training:
    """The loop, from batches to validations; `checkpoints` for the worker that writes."""
    settings = config.training
    batches = configured_batches(config, text, strategy)
    plan = batches.plan(0)
    log.info(
        "%s parameters in %s; %d batches an epoch, %.1f %% of their positions are padding",
        f"{model.count_params():,}",
        model.dtype_policy.name,
        len(plan.batches),
        100 * plan.padding_share,
    )
    return Training(
        model,
        optimizer,
        configured_update(config, model, optimizer, batches),
        batches,
        configured_validation(config, text, translator, model),
        checkpoints,
        limits=configured_limits(config),
        validate_every=settings.validate_every_updates,
        log_every=settings.log_every_updates,
        save_every=60 * settings.checkpoint_every_minutes if settings.checkpoint_every_minutes else None,
        metric=settings.early_stopping.metric,
        patience=settings.early_stopping.patience,
    )


def hyperparameters(config: RunConfig) -> dict[str, Any]:
    """By dotted key the settings that runs are compared by: those of text, model, training and search."""

    values = config.model_dump(mode="json", include={"run": {"seed"}, **dict.fromkeys(COMPARED, True)})
    return dict(flat_settings(values))


def configured_checkpoints(config: RunConfig, run: RunDirectory) -> Checkpoints:
    """The checkpoints of the run, as many as are gone on from or averaged."""
    settings = config.training
    averaged = {settings.average_of: settings.average_checkpoints}
    return Checkpoints(
        run.checkpoints,
        max(settings.keep_checkpoints, averaged.get("last", 1)),
        averaged.get("best", 0),
        settings.early_stopping.metric,
    )


def configured_limits(config: RunConfig) -> Limits:
    """When training ends."""
    return Limits(config.training.max_updates, config.training.max_epochs, config.training.max_minutes)

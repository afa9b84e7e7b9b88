"""Builds the parts of training from a config: each setting of `batches` and `training` is passed on here."""

import logging
import math
from collections.abc import Callable

import keras
import tensorflow as tf

from ..config import RunConfig
from ..config.choices.training import SCHEDULE_INFO
from ..config.training import LimitSettings, LossSettings, OptimizerSettings, PaceSettings, StepSettings
from ..decoding.forced import make_forced_graph
from ..decoding.translator import Translator
from ..errors import InputError
from ..files.run_directory import RunDirectory
from ..metrics import MetricInputs, measure_all
from ..metrics.likelihood import LikelihoodMeter
from ..model.build import build_model
from ..model.freezing import freeze_parts
from ..runtime.devices import parallel_batches, resolve_precision, slices_per_update, visible_gpus
from ..runtime.workers import Workers
from ..text.corpora.provenance import origin_of
from ..text.training_text import TrainingText
from .batch_size import PROCESSOR_TOKENS, find_batch_tokens, largest_useful, resolve_batch_tokens
from .batches import TrainingBatches
from .checkpoints import Checkpoints
from .loop import Training
from .loss import GuidedAttention, TotalLoss
from .optimizers import make_optimizer
from .progress import Progress
from .schedule import ClockSchedule, WarmupSchedule
from .step import TrainStep
from .stopping import Limits, StoppingRules
from .time_budget import TimeBudget
from .worker_checks import WorkerVotes

log = logging.getLogger(__name__)


def build_schedule(config: RunConfig, strategy: tf.distribute.Strategy) -> ClockSchedule | WarmupSchedule:
    """Builds the schedule of the learning rate. `strategy` is the strategy of the training."""
    settings = config.training
    if SCHEDULE_INFO[settings.schedule].measures_total:
        with strategy.scope():
            return ClockSchedule(settings.learning_rate, settings.warmup_updates)
    return WarmupSchedule(settings.schedule, settings.learning_rate, settings.warmup_updates, settings.max_updates)


def build_model_and_optimizer(
    config: RunConfig,
    vocabulary_size: int,
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    strategy: tf.distribute.Strategy,
) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    """Builds the model in the precision of training, and its optimizer, on the devices of the strategy.

    Args:
        config: the config.
        vocabulary_size: number of tokens in the vocabulary.
        schedule: the schedule of the learning rate.
        strategy: the strategy whose devices hold the model.
    """
    settings = config.training
    with strategy.scope():
        model = build_model(config.model, vocabulary_size, resolve_precision(settings.precision))
        freeze_parts(model, settings.freeze)
        optimizer = make_optimizer(schedule, **settings.part(OptimizerSettings))
        optimizer.build(model.trainable_variables)
    return model, optimizer


def resolve_xla(config: RunConfig, strategy: tf.distribute.Strategy, progress: Progress) -> bool:
    """Returns whether XLA compiles the update.

    If the run is new, it stores in `Progress.packed` whether batches are packed. A run keeps its batches on another
    device, so XLA is not chosen for a run that began without packed batches.

    Raises:
        InputError: `training.xla` is true, but the run began without packed batches.
    """
    xla = config.training.xla
    obstacle: str | None
    if progress.update and not progress.packed:
        if xla is True:
            raise InputError(
                "training.xla: XLA compiles updates for packed batches only, and this run began with others; expected "
                "auto or false, or a new run"
            )
        obstacle = "the run began with batches that are not packed"
    elif not visible_gpus():
        obstacle = "there is no GPU"
    elif strategy.num_replicas_in_sync > 1:
        obstacle = f"there are {strategy.num_replicas_in_sync} GPUs"
    elif config.batches.packed is False:
        obstacle = "batches.packed is false"
    else:
        model_obstacle = config.model.packing_obstacle
        obstacle = model_obstacle and f"{model_obstacle} cannot be trained on packed batches"
    if xla == "auto":
        xla = obstacle is None
        if visible_gpus():
            log.info("training.xla auto: %s, since %s", str(xla).lower(), obstacle or "there is a single GPU")
    if not progress.update:
        progress.packed = config.batches.is_packed(xla)
    return xla


def build_batches_and_step(
    config: RunConfig,
    text: TrainingText,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    progress: Progress,
) -> tuple[TrainingBatches, TrainStep]:
    """Builds the batches of every epoch, and the step that updates the model by them.

    If the run is new, it stores in `Progress` whether the batches are packed, see `resolve_xla`, and their size if
    `batches.batch_tokens` is `auto`.

    Raises:
        InputError: see `resolve_xla`, `find_batch_tokens` and `TrainStep`.
    """
    batch_tokens = resolve_batch_tokens(config.batches.batch_tokens, progress)
    xla = resolve_xla(config, strategy, progress)
    packed = bool(progress.packed)
    if batch_tokens is None:
        batches = build_batches(config, text, strategy, PROCESSOR_TOKENS, packed)
        step = _build_step(config, model, optimizer, strategy, batches, xla)
        batch_tokens = find_batch_tokens(step, batches, limit=largest_useful(batches))
        progress.batch_tokens = batch_tokens
    batches = build_batches(config, text, strategy, batch_tokens, packed)
    return batches, _build_step(config, model, optimizer, strategy, batches, xla)


def build_batches(
    config: RunConfig,
    text: TrainingText,
    strategy: tf.distribute.Strategy,
    batch_tokens: int,
    packed: bool | None = None,
) -> TrainingBatches:
    """Builds the batches of every epoch.

    Args:
        config: the config.
        text: the text of training.
        strategy: the strategy of the training.
        batch_tokens: the size of a batch, a number of tokens.
        packed: whether the rows of a batch have several pairs each; None for the choice of the config if XLA does not
            compile the update.
    """
    return TrainingBatches(
        text.segmentations,
        strategy,
        batch_tokens=batch_tokens,
        # so that no batch is padded beyond the last position
        length_multiple=math.gcd(config.batches.length_multiple, config.model.max_positions),
        seed=config.run.seed,
        accumulated=config.batches.accumulated,
        mixture=text.mixture,
        packed=config.batches.is_packed(xla=False) if packed is None else packed,
    )


def _build_step(
    config: RunConfig,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    batches: TrainingBatches,
    xla: bool,
) -> TrainStep:
    settings = config.training
    terms = settings.part(LossSettings)
    if settings.guided_attention is not None:
        terms["guided_attention"] = GuidedAttention(**settings.guided_attention.model_dump())
    return TrainStep(
        TotalLoss(model, **terms),
        optimizer,
        strategy,
        batches.signature,
        slices=1 if xla else slices_per_update(),
        **settings.part(StepSettings) | {"xla": xla},
    )


def build_validation(
    config: RunConfig, text: TrainingText, translator: Translator, model: keras.Model
) -> Callable[[], dict[str, float]]:
    """Builds a function that measures the model with its current weights on the validation set.

    The function returns each metric of `config.choices.translation.METRIC_INFO` by its name with the prefix `val_`.

    Args:
        config: the config.
        text: the text, with the validation set.
        translator: translates with the model.
        model: the model.
    """
    meter = LikelihoodMeter(
        make_forced_graph(model),
        *text.validation_pairs.sides,
        max_positions=config.model.max_positions,
        threads=parallel_batches(),
    )
    if meter.too_long:
        log.warning("%d validation pairs are too long for model.max_positions: not in the loss", meter.too_long)

    def validate() -> dict[str, float]:
        likelihood = meter.measure()
        translations = [translation.text for translation in translator.translate(text.validation.source)]
        inputs = MetricInputs(translations, text.validation.target, likelihood, config.data.scoring_tokenizer)
        return {f"val_{name}": value for name, value in measure_all(inputs).items()}

    return validate


def build_training(
    config: RunConfig,
    step: TrainStep,
    batches: TrainingBatches,
    schedule: ClockSchedule | WarmupSchedule,
    validate: Callable[[], dict[str, float]],
    checkpoints: Checkpoints,
    workers: Workers,
) -> Training:
    """Builds the training loop. Only the chief writes checkpoints.

    Args:
        config: the config.
        step: makes an update.
        batches: the batches of every epoch.
        schedule: the schedule of the learning rate.
        validate: the result of `build_validation`.
        checkpoints: the folder of checkpoints.
        workers: all workers of the training.
    """
    settings = config.training
    limits = build_limits(config)
    votes = WorkerVotes(batches.strategy, workers)
    time_budget = None
    if isinstance(schedule, ClockSchedule):
        time_budget = TimeBudget(
            schedule,
            limits,
            updates_per_epoch=batches.updates(0),
            validate_every=settings.validate_every_updates,
            workers=workers,
            agree_every=1 if votes.alone else settings.log_every_updates,
        )
    return Training(
        step,
        batches,
        validate,
        checkpoints if workers.is_chief else None,
        StoppingRules(limits, **settings.early_stopping.model_dump(), votes=votes),
        workers,
        **settings.part(PaceSettings),
        time_budget=time_budget,
    )


def build_checkpoints(config: RunConfig, run: RunDirectory) -> Checkpoints:
    """Builds the folder of checkpoints. It keeps at least the number of checkpoints that are averaged at the end."""
    settings = config.training
    keep = max(settings.keep_checkpoints, settings.average_checkpoints)
    return Checkpoints(run.checkpoints, keep, origin_of(run, config.run.seed))


def build_limits(config: RunConfig) -> Limits:
    """Builds the limits at which training ends."""
    settings = config.training
    schedule = SCHEDULE_INFO[settings.schedule]
    return Limits(**settings.part(LimitSettings), measured=schedule.measures_total, ends_at_zero=schedule.ends_at_zero)

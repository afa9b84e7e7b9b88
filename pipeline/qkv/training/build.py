"""Builds the parts of training from a config: one module shows what each setting of `batches` and `training` does."""

import logging
import math

import keras
import tensorflow as tf

from ..config import RunConfig
from ..config.names.training import SCHEDULES
from ..config.training import LimitSettings, LossSettings, OptimizerSettings, PaceSettings, StepSettings
from ..decoding.forced import make_forced_graph
from ..decoding.translator import Translator
from ..files.run_directory import RunDirectory
from ..metrics.likelihood import LikelihoodMeter
from ..model.build import build_model
from ..model.parts import describe_parameters, freeze_parts
from ..runtime.devices import parallel_batches, resolve_precision, slices_per_update
from ..text.batch_plan import coarse_lengths
from ..text.corpora.provenance import origin_of
from ..text.training_text import TrainingText
from .batches import TrainingBatches
from .checkpoints import Checkpoints
from .loop import Training
from .loss import GuidedAttention, TotalLoss
from .optimizers import make_optimizer
from .schedule import ClockSchedule, WarmupSchedule
from .step import TrainStep
from .stopping import Limits, StoppingRules
from .time_budget import MeasuredTotal
from .validation import Validation
from .workers import Agreement

log = logging.getLogger(__name__)


def build_model_and_optimizer(
    config: RunConfig, vocabulary_size: int, strategy: tf.distribute.Strategy
) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    """Builds the model in the precision of training, and its optimizer, on the strategy's devices."""
    with strategy.scope():
        model = build_model(config.model, vocabulary_size, resolve_precision(config.training.precision))
        freeze_parts(model, config.training.freeze)
        return model, _build_optimizer(config, model)


def _build_optimizer(config: RunConfig, model: keras.Model) -> keras.optimizers.Optimizer:
    settings = config.training
    schedule: keras.optimizers.schedules.LearningRateSchedule
    if SCHEDULES[settings.schedule].measures_total:
        schedule = ClockSchedule(settings.learning_rate, settings.warmup_updates)
    else:
        schedule = WarmupSchedule(
            settings.schedule, settings.learning_rate, settings.warmup_updates, settings.max_updates
        )
    optimizer = make_optimizer(schedule, **settings.part(OptimizerSettings))
    optimizer.build(model.trainable_variables)
    return optimizer


def build_batches(config: RunConfig, text: TrainingText, strategy: tf.distribute.Strategy) -> TrainingBatches:
    """Builds the batches of every epoch. `batches.batch_tokens` is a number, see `known_batches`."""
    assert config.batches.batch_tokens != "auto"
    return TrainingBatches(
        text.segmentations,
        strategy,
        batch_tokens=config.batches.batch_tokens,
        # so that no batch is padded beyond the last position
        length_multiple=math.gcd(config.batches.length_multiple, config.model.max_positions),
        seed=config.run.seed,
        accumulated=config.batches.accumulated,
        mixture=text.mixture,
        lengths=coarse_lengths(config.model.max_positions) if config.training.xla else None,
    )


def build_train_step(
    config: RunConfig, model: keras.Model, optimizer: keras.optimizers.Optimizer, batches: TrainingBatches
) -> TrainStep:
    """Builds the graph of an update, with its loss."""
    settings = config.training
    guided = settings.guided_attention
    parts = {"guided_attention": guided and GuidedAttention(**guided.model_dump())}
    loss = TotalLoss(model, **settings.part(LossSettings) | parts)
    return TrainStep(
        model,
        optimizer,
        loss,
        batches.strategy,
        batches.signature,
        accumulating=batches.accumulated > 1,
        slices=1 if settings.xla else slices_per_update(),
        **settings.part(StepSettings),
    )


def build_validation(config: RunConfig, text: TrainingText, translator: Translator, model: keras.Model) -> Validation:
    """Builds what measures the model on the validation set."""
    meter = LikelihoodMeter(
        make_forced_graph(model),
        *text.validation_pairs.sides,
        max_positions=config.model.max_positions,
        workers=parallel_batches(),
    )
    if meter.too_long:
        log.warning("%d validation pairs are too long for model.max_positions: not in the loss", meter.too_long)
    return Validation(meter, translator, text.validation, bleu_tokenizer=config.data.scoring_tokenizer)


def build_training(
    config: RunConfig,
    text: TrainingText,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    agreement: Agreement,
    translator: Translator,
    checkpoints: Checkpoints | None,
) -> Training:
    """Builds the training loop. `checkpoints` is None for a worker that writes nothing."""
    settings = config.training
    batches = build_batches(config, text, agreement.strategy)
    plan = batches.plan(0)
    log.info(
        "%s in %s; %d batches an epoch, %.1f %% of their positions are padding",
        describe_parameters(model),
        model.dtype_policy.name,
        plan.count,
        100 * plan.padding_share,
    )
    stopping = StoppingRules(build_limits(config), **settings.early_stopping.model_dump(), agreement=agreement)
    return Training(
        model,
        optimizer,
        build_train_step(config, model, optimizer, batches),
        batches,
        build_validation(config, text, translator, model),
        checkpoints,
        stopping=stopping,
        **settings.part(PaceSettings),
        metric=settings.early_stopping.metric,
        measured_total=_build_measured_total(config, optimizer, batches, stopping),
    )


def _build_measured_total(
    config: RunConfig, optimizer: keras.optimizers.Optimizer, batches: TrainingBatches, stopping: StoppingRules
) -> MeasuredTotal | None:
    if not stopping.limits.measured:
        return None
    settings = config.training
    return MeasuredTotal(
        optimizer._learning_rate,
        stopping.limits,
        updates_per_epoch=batches.updates(0),
        validate_every=settings.validate_every_updates,
        agreement=stopping.agreement,
        agree_every=settings.log_every_updates,
    )


def build_checkpoints(config: RunConfig, run: RunDirectory) -> Checkpoints:
    """Builds the folder of checkpoints, which keeps those that a run resumes from and those that are averaged."""
    settings = config.training
    keep = max(settings.keep_checkpoints, settings.average_checkpoints)
    return Checkpoints(run.checkpoints, keep, origin_of(run, config.run.seed))


def build_limits(config: RunConfig) -> Limits:
    """Builds the limits at which training ends."""
    settings = config.training
    measured = SCHEDULES[settings.schedule].measures_total
    return Limits(**settings.part(LimitSettings), measured=measured)

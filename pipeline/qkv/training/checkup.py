"""Checks a training before it starts: its text, its first updates, and the time and disk space that it needs."""

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..config import RunConfig
from ..config.model import TransformerSettings
from ..config.yaml import dump_yaml
from ..files.run_directory import RunDirectory
from ..metrics.bleu import check_bleu_tokenizer
from ..model.freezing import describe_parameters
from ..runtime.devices import choose_devices, make_strategy, resolve_precision
from ..runtime.machine import keep_freed_memory
from ..text.batch_plan import BatchPlan
from ..text.prepare import TrainingText, prepare_text
from .build import build_batches, build_limits, build_model_and_optimizer, build_train_step
from .checkup_line import CheckupLine
from .checkup_text import describe_text
from .estimates import checkpoint_bytes, nearest_limit, state_bytes, time_step
from .known_batches import known_batches
from .machine_checkup import GIGABYTE, describe_gpus, describe_machine, describe_memory
from .proposal import ModelSize, Proposal, propose, token_cost
from .starting_weights import StartingWeights
from .step import TrainStepMetrics
from .validation import VALIDATIONS

MEGABYTE = 2**20


def check_up(
    config: RunConfig, take_ancestor: Callable[[RunConfig, RunDirectory], StartingWeights | None]
) -> Iterator[CheckupLine]:
    """Prepares the text, makes a few updates in a temporary folder, and yields the report line by line.

    Args:
        config: the settings of the training.
        take_ancestor: copies the weights and the tokenizer of the run that it starts from, if there is one.

    Raises:
        InputError: training would refuse the settings or the text, too.
    """
    check_bleu_tokenizer(config.data.scoring_tokenizer)
    keep_freed_memory()
    choose_devices(config.run.devices, config.run.deterministic)
    strategy = make_strategy()
    keras.utils.set_random_seed(config.run.seed)
    yield describe_machine()
    yield from describe_gpus(resolve_precision(config.training.precision))
    assert config.run.name  # the command line has set it
    root = config.run.directory / config.run.name
    if root.exists():
        text = f"{root} exists: train.py continues or refuses it; --run.name starts another run"
        yield CheckupLine("run", text, fine=False)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run")
        ancestor = take_ancestor(config, run)
        training_text = prepare_text(config, run)
        yield from describe_text(config, run, training_text)
        yield from _try_training(config, training_text, root, strategy, ancestor)


def _try_training(
    config: RunConfig,
    text: TrainingText,
    root: Path,
    strategy: tf.distribute.Strategy,
    ancestor: StartingWeights | None,
) -> Iterator[CheckupLine]:
    model, optimizer = build_model_and_optimizer(config, text.tokenizer.vocabulary_size, strategy)
    yield _describe_model(config, model)
    if ancestor is not None:
        ancestor.load(model)
        yield CheckupLine("weights", f"of {ancestor}")
    config, _ = known_batches(config, text, model, optimizer, strategy)
    batches = build_batches(config, text, strategy)
    plan = batches.plan(0)
    padding = f"{plan.count:,} an epoch, {100 * plan.padding_share:.1f} % padding"
    yield CheckupLine("batches", padding, fine=plan.padding_share < 0.3)
    step = build_train_step(config, model, optimizer, batches)
    started = time.monotonic()
    metrics = step(next(batches.epoch(0, _largest_batch(plan.window(0), text))))
    yield _describe_start(metrics, time.monotonic() - started, text.tokenizer.vocabulary_size)
    speed = time_step(step, batches.epoch(0))
    yield CheckupLine(
        "update",
        f"{1000 * speed.seconds:.0f} ms, {speed.tokens_per_second:,.0f} target tokens/s (mean of {speed.updates})",
    )
    yield from describe_memory()
    target = _target_lengths(text)
    epoch_seconds = (target.sum() + len(target)) / speed.tokens_per_second  # each target ends in EOS
    epoch_updates = batches.updates(0)
    yield _describe_duration(config, epoch_updates, epoch_seconds / epoch_updates)
    yield _describe_disk(config, model, root)
    if isinstance(config.model, TransformerSettings) and ancestor is None:  # or another size could not be used
        sizes = ModelSize(**config.model.model_dump(include=set(ModelSize.__annotations__)))
        cost = token_cost(sizes, text.tokenizer.vocabulary_size, batches.batch_tokens)
        _, minutes = nearest_limit(build_limits(config), epoch_updates, epoch_seconds / epoch_updates)
        pairs, tokens = len(target), 1 + float(target.mean())
        minutes = max(round(float(minutes), 1), 0.1)
        yield _describe_proposal(propose(pairs, tokens, minutes, speed.tokens_per_second * cost))


def _target_lengths(text: TrainingText) -> Any:
    lengths = text.segmentations[0].target.lengths
    return lengths if text.mixture is None else lengths[text.mixture.rows(0)]


def _describe_model(config: RunConfig, model: Any) -> CheckupLine:
    state = state_bytes(model.count_params()) / GIGABYTE
    description = f"{config.model.architecture}, {describe_parameters(model)}, {model.dtype_policy.name}"
    return CheckupLine("model", f"{description}; {state:.1f} GiB for weights, gradients and their moments")


def _describe_start(metrics: TrainStepMetrics, seconds: float, vocabulary: int) -> CheckupLine:
    loss = float(metrics.loss) / float(metrics.tokens)
    return CheckupLine(
        "start",
        f"{seconds:.1f} s to trace the first update; its loss is {loss:.2f} (chance: {math.log(vocabulary):.2f})",
        fine=math.isfinite(loss) and loss < 2 * math.log(vocabulary),
    )


def _largest_batch(plan: BatchPlan, text: TrainingText) -> int:
    """Returns the number of the batch with the most positions."""
    source, target = text.segmentations[0].sides
    sizes = [len(rows) * (source.lengths[rows].max() + target.lengths[rows].max()) for rows in plan.batches]
    return int(np.argmax(sizes))


def _describe_duration(config: RunConfig, epoch_updates: int, seconds: float) -> CheckupLine:
    limit, minutes = nearest_limit(build_limits(config), epoch_updates, seconds)
    updates = round(minutes * 60 / seconds)
    every = config.training.validate_every_updates or max(1, updates // VALIDATIONS)
    validations = f"{max(1, updates // every):,} validation{'s' if updates >= 2 * every else ''}"
    return CheckupLine(
        "training",
        f"about {minutes:,.0f} minutes until training.max_{limit}: {updates:,} updates, "
        f"{updates / epoch_updates:.1f} epochs; {validations} not included",
        fine=updates >= every,
    )


def _describe_proposal(proposal: Proposal) -> CheckupLine:
    sections = dump_yaml(proposal.settings()).rstrip().replace("\n", "\n  ")
    return CheckupLine(
        "proposal", f"for {proposal.minutes:,g} minutes on this machine: {proposal}; to paste:\n  {sections}"
    )


def _describe_disk(config: RunConfig, model: keras.Model, root: Path) -> CheckupLine:
    settings = config.training
    needed = checkpoint_bytes(model.count_params(), settings.keep_checkpoints, settings.average_checkpoints)
    folder = root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return CheckupLine(
        "disk",
        f"about {needed / MEGABYTE:,.1f} MB for checkpoints; {free / GIGABYTE:,.1f} GiB are free in {folder}",
        fine=needed < 0.5 * free,
    )

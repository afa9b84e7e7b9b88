"""What can be known of a training run before it starts: its text, its first updates, and what it takes."""

import json
import math
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..config import RunConfig
from ..model.build import build_model
from ..run_directory import RunDirectory
from ..runtime.cores import usable_cores
from ..runtime.devices import make_strategy, resolve_precision
from ..runtime.memory import keep_freed_memory
from ..text.batches import BatchPlan
from ..text.prepare import TrainingText, prepare_text
from .build import build_batches, build_limits, build_optimizer, build_train_step
from .step import TrainStepMetrics

TIMED_SECONDS = 12.0  # enough updates for an estimate
TIMED_UPDATES = 20
MATRIX = 1024  # rows and columns of the products that the machine is measured by
MEGABYTE, GIGABYTE = 2**20, 2**30


class Finding(NamedTuple):
    """A line of the report: what it is of, what was found, and whether that is fine or to be looked at."""

    of: str
    text: str
    fine: bool = True


def check_up(config: RunConfig) -> Iterator[Finding]:
    """Prepares the text and trains for a moment in a folder that goes away, and reports on the way.

    Raises:
        InputError: something is wrong that training would refuse, too.
    """
    keep_freed_memory()
    keras.utils.set_random_seed(config.run.seed)
    yield from _machine()
    assert config.run.name  # the command line's own doing
    root = config.run.directory / config.run.name
    if root.exists():
        yield Finding(
            "run", f"{root} exists: train.py goes on with it or refuses; --run.name starts another", fine=False
        )
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run")
        text = prepare_text(config, run)
        yield from _text(config, run, text)
        yield from _training(config, text, root)


def _machine() -> Iterator[Finding]:
    rates = {name: _products_per_second(name) / 1e9 for name in ("float32", "bfloat16")}
    gpus = len(tf.config.list_physical_devices("GPU"))
    yield Finding(
        "machine",
        f"{usable_cores()} processor cores, {gpus or 'no'} GPU{'s' if gpus > 1 else ''}, "
        f"{_memory() / GIGABYTE:.0f} GiB of memory; matrix products {rates['float32']:.0f} GFLOP/s in float32, "
        f"{rates['bfloat16']:.0f} in bfloat16",
    )


def _text(config: RunConfig, run: RunDirectory, text: TrainingText) -> Iterator[Finding]:
    report = json.loads(run.corpus_report.read_text(encoding="utf-8"))
    dropped = report["pairs"] - report["kept"]
    yield Finding(
        "text",
        f"{report['kept']:,} of {report['pairs']:,} training pairs"
        + (f" and {report['joined']:,} joined ones" if report["joined"] else "")
        + f", {len(text.validation):,} for validation",
        fine=dropped < 0.1 * report["pairs"],
    )
    for name, shared in report["overlap"].items():
        if shared["pairs"]:
            yield Finding(
                "text", f"{shared['pairs']} of {shared['of']} {name} pairs stand in the training text too", False
            )
    pairs = text.segmentations[0]
    lengths = [f"{side.lengths.mean():.1f} and at most {side.lengths.max()}" for side in pairs.sides]
    yield Finding(
        "tokens",
        f"a vocabulary of {text.tokenizer.vocabulary_size:,}; a source has {lengths[0]} tokens, a target {lengths[1]}",
    )


def _training(config: RunConfig, text: TrainingText, root: Path) -> Iterator[Finding]:
    strategy = make_strategy()
    precision = resolve_precision(config.training.precision)
    with strategy.scope():
        model = build_model(config.model, text.tokenizer.vocabulary_size, precision)
        optimizer = build_optimizer(config, model)
    yield Finding("model", f"{config.model.architecture}, {model.count_params():,} parameters, {precision}")
    batches = build_batches(config, text, strategy)
    epoch = batches.full_epoch
    plan = batches.plan(epoch)
    yield Finding(
        "batches",
        f"{len(plan.batches):,} an epoch, {100 * plan.padding_share:.1f} % padding",
        fine=plan.padding_share < 0.3,
    )
    update = build_train_step(config, model, optimizer, batches)
    largest = _largest(plan, text)
    started = time.monotonic()
    first = update(next(batches.epoch(epoch, largest)))
    yield _first_update(first, time.monotonic() - started, text.tokenizer.vocabulary_size)
    seconds, speed, updates = _timed(update, batches.epoch(epoch))
    yield Finding("update", f"{1000 * seconds:.0f} ms, {speed:,.0f} target tokens/s (mean of {updates})")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield Finding(
        "memory",
        f"{peak / GIGABYTE:.1f} GiB with the largest batch, of {_memory() / GIGABYTE:.0f}",
        fine=peak < 0.8 * _memory(),
    )
    target = text.segmentations[0].target.lengths
    epoch_seconds = (target.sum() + len(target)) / speed  # EOS among them
    updates = batches.updates(epoch)
    yield _duration(config, updates, epoch_seconds / updates)
    yield _disk(config, model, root)


def _first_update(logs: TrainStepMetrics, seconds: float, vocabulary: int) -> Finding:
    loss = float(logs.loss) / float(logs.tokens)
    return Finding(
        "start",
        f"{seconds:.1f} s to trace the first update; its loss is {loss:.2f} (chance: {math.log(vocabulary):.2f})",
        fine=math.isfinite(loss) and loss < 2 * math.log(vocabulary),
    )


def _timed(update, batches) -> tuple[float, float, int]:
    """Seconds of an update, target tokens a second, and how many updates they were measured by."""
    started, tokens, updates = time.monotonic(), 0.0, 0
    for batch in batches:
        tokens += float(update(batch).tokens)  # waits for the update
        updates += 1
        if updates == TIMED_UPDATES or time.monotonic() - started > TIMED_SECONDS:
            break
    seconds = time.monotonic() - started
    return seconds / updates, tokens / seconds, updates


def _largest(plan: BatchPlan, text: TrainingText) -> int:
    """The number of the batch with the most positions."""
    source, target = text.segmentations[0].sides
    sizes = [len(rows) * (source.lengths[rows].max() + target.lengths[rows].max()) for rows in plan.batches]
    return int(np.argmax(sizes))


def _duration(config: RunConfig, updates_an_epoch: int, seconds: float) -> Finding:
    limits = build_limits(config)
    ends = {
        "updates": (limits.updates or math.inf) * seconds / 60,
        "epochs": (limits.epochs or math.inf) * updates_an_epoch * seconds / 60,
        "minutes": limits.minutes or math.inf,
    }
    by, minutes = min(ends.items(), key=lambda item: item[1])
    updates = round(minutes * 60 / seconds)
    every = config.training.validate_every_updates
    validations = f"{max(1, updates // every):,} validation{'s' if updates >= 2 * every else ''}"
    return Finding(
        "training",
        f"about {minutes:,.0f} minutes until training.max_{by}: {updates:,} updates, "
        f"{updates / updates_an_epoch:.1f} epochs; beside the time of {validations}",
        fine=updates >= every,
    )


def _disk(config: RunConfig, model: keras.Model, root: Path) -> Finding:
    # Weights and two moments of them in every checkpoint, in the best one too; the model file with weights alone.
    # The best of `average_checkpoints` may be others than the recent ones.
    kept = config.training.keep_checkpoints + config.training.average_checkpoints
    needed = 4 * model.count_params() * (3 * (kept + 1) + 1)
    folder = root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Finding(
        "disk",
        f"about {needed / MEGABYTE:,.1f} MB for checkpoints; {free / GIGABYTE:,.1f} GiB are free in {folder}",
        fine=needed < 0.5 * free,
    )


def _products_per_second(dtype: str) -> float:
    x = tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype)
    seconds = []
    for _ in range(4):
        started = time.monotonic()
        tf.matmul(x, x).numpy()
        seconds.append(time.monotonic() - started)
    return 2 * MATRIX**3 / min(seconds)


def _memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

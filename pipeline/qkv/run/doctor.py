"""The checkup of a training before it starts, for `qkv doctor`: machine, text, first updates, time and disk space."""

import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..config import RunConfig
from ..config.model import TransformerSettings
from ..config.run import flat_settings
from ..files.run_directory import RunDirectory
from ..metrics.bleu import check_bleu_tokenizer
from ..model.freezing import describe_parameters
from ..runtime.compiled_programs import keep_programs
from ..runtime.devices import (
    choose_devices,
    gpu_memory,
    idle_gpu,
    make_strategy,
    product_rate,
    resolve_precision,
    slow_precision,
    visible_gpus,
)
from ..runtime.machine import keep_freed_memory, peak_memory, total_memory, usable_cores
from ..text.batch import Batch
from ..text.prepare import prepare_text
from ..text.selection import describe_invisible
from ..text.tokens.run_tokenizer import VocabularySizeError
from ..text.training_text import TrainingText
from ..training.batches import PackedRows
from ..training.build import build_batches_and_step, build_limits, build_model_and_optimizer, build_schedule
from ..training.loop import most_updates_of_call
from ..training.progress import Progress
from ..training.step import TrainStep
from ..training.stopping import Limits
from ..training.time_budget import VALIDATIONS
from .ancestor import Ancestor, take_ancestor
from .proposal import ModelSize, propose, token_cost

MEGABYTE, GIGABYTE = 2**20, 2**30
MANY_REPEATS = 20
"""The number of times that an epoch reads a pair above which the line of its corpus is marked."""
TIMED_SECONDS = 12.0
"""The seconds after which the timing of updates ends."""
TIMED_UPDATES = 20
"""The number of updates after which it ends, if `LEAST_SECONDS` have passed."""
LEAST_SECONDS = 1.0
"""The seconds that are timed at least: 20 updates of a GPU may take 40 ms."""


class CheckupLine(NamedTuple):
    """A line of the report.

    - subject: the part of the training that the line describes, in one word.
    - text: the description.
    - fine: False if the user should look at the line. It is then marked with LOOK.
    - settings: the proposed settings by dotted key; None if the line proposes none.
    """

    subject: str
    text: str
    fine: bool = True
    settings: Mapping[str, Any] | None = None


def check_up(config: RunConfig) -> Iterator[CheckupLine]:
    """Prepares the text and makes a few updates, in a temporary folder, and yields the report line by line.

    Args:
        config: the settings of the training, with the name of the run.

    Raises:
        InputError: the settings or the text have a mistake. Training would raise the same error.
    """
    check_bleu_tokenizer(config.data.scoring_tokenizer)
    keep_freed_memory()
    keep_programs(config.training.xla)  # training then starts without compiling again
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
        vocabulary_limit = None
        try:
            training_text = prepare_text(config, run)
        except VocabularySizeError as error:
            size = vocabulary_limit = error.fitting
            text = f"{error}; {size} is proposed, and used below"
            yield CheckupLine("vocabulary", text, fine=False, settings={"tokenizer.vocabulary_size": size})
            tokenizer = config.tokenizer.model_copy(update={"vocabulary_size": size})
            config = config.model_copy(update={"tokenizer": tokenizer})
            run = RunDirectory.create(Path(folder) / "again")
            training_text = prepare_text(config, run)
        yield from _describe_text(config, run, training_text)
        yield from _try_training(config, training_text, root, strategy, ancestor, vocabulary_limit)


def describe_machine() -> CheckupLine:
    """Describes cores, memory and the speed of matrix products."""
    total = total_memory()
    memory = f"{total / GIGABYTE:.0f} GiB of memory" if total else "memory unknown"
    rates = {dtype: product_rate(dtype) / 1e9 for dtype in ("float32", "bfloat16")}
    gpus = len(visible_gpus())
    return CheckupLine(
        "machine",
        f"{usable_cores()} processor cores, {gpus or 'no'} GPU{'s' if gpus > 1 else ''}, "
        f"{memory}; matrix products {rates['float32']:.0f} GFLOP/s in float32, {rates['bfloat16']:.0f} in bfloat16",
    )


def describe_gpus(precision: str) -> Iterator[CheckupLine]:
    """Describes each GPU, and warns of an NVIDIA GPU that TensorFlow does not see and of a slow precision.

    Args:
        precision: the Keras dtype policy of the training.
    """
    gpus = visible_gpus()
    for number, (gpu, memory) in enumerate(zip(gpus, gpu_memory() if gpus else [], strict=True)):
        yield CheckupLine("gpu", f"number {number}: {gpu}, {memory / GIGABYTE:.1f} GiB of memory for TensorFlow")
    if reason := idle_gpu():
        yield CheckupLine("gpu", f"TensorFlow does not see the NVIDIA GPU of this machine: {reason}", fine=False)
    if advice := slow_precision(precision):
        yield CheckupLine("precision", advice, fine=False)


def _describe_text(config: RunConfig, run: RunDirectory, text: TrainingText) -> Iterator[CheckupLine]:
    """Describes the prepared text: its pairs, invisible characters, corpora and tokens."""
    report = json.loads(run.corpus_report.read_text(encoding="utf-8"))
    dropped = report["pairs"] - report["kept"]
    joined = f" and {report['joined']:,} joined ones" if report["joined"] else ""
    yield CheckupLine(
        "text",
        f"{report['kept']:,} of {report['pairs']:,} training pairs{joined}, {len(text.validation):,} for validation",
        fine=dropped < 0.1 * report["pairs"],
    )
    if counted := describe_invisible(report["invisible"]):
        advice = "typed text keeps them, other text may lack them; remove those without a meaning"
        yield CheckupLine("invisible", f"characters in the training text: {counted}; {advice}", fine=False)
    for corpus in report["corpora"] if config.data.listed_corpora else []:
        tag = "" if corpus["tag"] is None else f", tag {corpus['tag']}"
        left_out = sum(corpus.get("filtered", {}).values())
        filtered = f" ({left_out:,} left out by filters)" if left_out else ""
        yield CheckupLine(
            "corpus",
            f"{corpus['files']}: {corpus['kept']:,} of {corpus['pairs']:,} pairs{filtered}, "
            f"{100 * corpus['share']:.1f} % of an epoch, each pair {corpus['repeats']:.2f} times{tag}",
            fine=corpus["repeats"] <= MANY_REPEATS and 2 * corpus["kept"] >= corpus["pairs"],
        )
    sides = text.segmentations[0].sides
    source, target = (f"{side.lengths.mean():.1f} and at most {side.lengths.max()}" for side in sides)
    size = text.tokenizer.vocabulary_size
    yield CheckupLine("tokens", f"a vocabulary of {size:,}; a source has {source} tokens, a target {target}")


def _try_training(
    config: RunConfig,
    text: TrainingText,
    root: Path,
    strategy: tf.distribute.Strategy,
    ancestor: Ancestor | None,
    vocabulary_limit: int | None,
) -> Iterator[CheckupLine]:
    """Makes a few updates, and describes model, batches, updates, memory, time, disk space and a proposal.

    Args:
        config: the settings.
        text: the prepared text.
        root: the future folder of the run.
        strategy: the strategy of the devices.
        ancestor: the copy of the run that training starts from; None if it starts from random weights.
        vocabulary_limit: the largest vocabulary size that the text allows; None if the config's is not too large.
    """
    vocabulary = text.tokenizer.vocabulary_size
    schedule = build_schedule(config, strategy)
    model, optimizer = build_model_and_optimizer(config, vocabulary, schedule, strategy)
    state = state_bytes(model.count_params()) / GIGABYTE
    yield CheckupLine(
        "model",
        f"{config.model.architecture}, {describe_parameters(model)}, {model.dtype_policy.name}; "
        f"{state:.1f} GiB for weights, gradients and their moments",
    )
    if ancestor is not None:
        ancestor.load(model)
        yield CheckupLine("weights", f"of {ancestor}")
    batches, step = build_batches_and_step(config, text, model, optimizer, strategy, Progress())
    plan = batches.plan(0)
    padding = f"{plan.count:,} an epoch, {100 * plan.padding_share:.1f} % padding"
    yield CheckupLine("batches", padding, fine=plan.padding_share < 0.3)
    started = time.monotonic()
    largest = int(np.argmax(plan.window(0).positions))
    metrics = step(next(batches.epoch(0, largest)))
    loss = float(metrics.loss) / float(metrics.tokens)
    chance = math.log(vocabulary)
    yield CheckupLine(
        "start",
        f"{time.monotonic() - started:.1f} s to {'compile' if step.xla else 'trace'} the first update; its loss is "
        f"{loss:.2f} (chance: {chance:.2f})",
        fine=math.isfinite(loss) and loss < 2 * chance,
    )
    several = most_updates_of_call(config.training.updates_per_call, step, config.batches.accumulated)
    if plan.count < 2 * several:  # too few for the call that traces and a call that is timed
        several = 1
    seconds, speed, timed = time_step(step, batches.epoch(0), several)
    ways = ["packed batches"] * isinstance(batches.rows, PackedRows) + ["compiled by XLA"] * step.xla
    how = ", ".join([f"mean of {timed}", *ways])
    yield CheckupLine("update", f"{1000 * seconds:.{int(seconds < 0.1)}f} ms, {speed:,.0f} target tokens/s ({how})")
    yield from describe_memory()
    lengths = text.segmentations[0].target.lengths
    if text.mixture is not None:
        lengths = lengths[text.mixture.rows(0)]
    epoch_seconds = (lengths.sum() + len(lengths)) / speed  # each target ends in EOS
    epoch_updates = batches.updates(0)
    limit, minutes = nearest_limit(build_limits(config), epoch_updates, epoch_seconds / epoch_updates)
    yield _describe_duration(config, epoch_updates, epoch_seconds / epoch_updates, limit, minutes)
    yield _describe_disk(config, model, root)
    if isinstance(config.model, TransformerSettings) and ancestor is None:  # the size of an ancestor is fixed
        sizes = ModelSize(**config.model.model_dump(include=set(ModelSize.__annotations__)))
        work_per_second = speed * token_cost(sizes, vocabulary, batches.batch_tokens)
        minutes = max(round(float(minutes), 1), 0.1)
        proposal = propose(len(lengths), 1 + float(lengths.mean()), minutes, work_per_second, vocabulary_limit)
        proposed = proposal.settings()
        present = dict(flat_settings(config.model_dump()))
        changes = {key: "null" if value is None else value for key, value in proposed.items() if value != present[key]}
        verdict = "probably better than the config" if changes else "the same as the config"
        lines = [f"for {minutes:,g} minutes on this machine, {verdict}: {proposal}"]
        if changes:
            lines[0] += "; --write FILE writes it into a copy of the config or into the config itself:"
            lines += [f"{key} {value}, not {present[key]}" for key, value in changes.items()]
        yield CheckupLine("proposal", "\n  ".join(lines), settings=proposed)


def time_step(step: TrainStep, batches: Iterable[Batch], several: int = 1) -> tuple[float, float, int]:
    """Measures the time of updates with the first batches.

    Args:
        step: the training step, which has made an update.
        batches: the batches, at least one; or more than `several`, if that is more than 1.
        several: the number of updates of a call of the step. If it is more than 1, the first call is not timed, because
            TensorFlow traces its graph.

    Returns:
        The mean seconds of an update, the target tokens per second, and the number of updates.
    """
    batches = iter(batches)
    groups = iter(lambda: list(islice(batches, several)), [])
    if several > 1:
        np.asarray(step.make_several(next(groups)).tokens)
    started = time.monotonic()
    tokens, updates, seconds = 0.0, 0, 0.0
    for group in groups:
        metrics = step(*group) if several == 1 else step.make_several(group)
        tokens += float(np.sum(metrics.tokens))  # waits for the updates
        updates += len(group)
        seconds = time.monotonic() - started
        if (updates >= TIMED_UPDATES and seconds > LEAST_SECONDS) or seconds > TIMED_SECONDS:
            break
    return seconds / updates, tokens / seconds, updates


def describe_memory() -> Iterator[CheckupLine]:
    """Describes the peak use of memory since the process started, on each GPU and of the machine."""
    for number, total in enumerate(gpu_memory() if visible_gpus() else []):
        peak = tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"]
        yield _describe_peak(f"of GPU {number}, ", peak, total)
    yield _describe_peak("", peak_memory(), total_memory())


def _describe_peak(prefix: str, peak: int | None, total: int | None) -> CheckupLine:
    """Describes a peak use of memory.

    Args:
        prefix: the beginning of the text, such as the name of the GPU.
        peak: the peak use in bytes; None if the system does not report it.
        total: the size of the memory in bytes; None if the system does not report it.
    """
    if peak is None or total is None:
        return CheckupLine("memory", "this system does not report it")
    text = f"{prefix}{peak / GIGABYTE:.1f} GiB with the largest batch, of {total / GIGABYTE:.0f}"
    return CheckupLine("memory", text, fine=peak < 0.8 * total)


def nearest_limit(limits: Limits, updates_per_epoch: int, update_seconds: float) -> tuple[str, float]:
    """Finds the limit that ends training first.

    Args:
        limits: the limits of the training.
        updates_per_epoch: the number of updates in an epoch.
        update_seconds: the seconds of an update.

    Returns:
        `(name, minutes)`: the name of the limit, `updates`, `epochs` or `minutes`, and the minutes until it is reached;
        infinity if there is no limit.
    """
    minutes = {
        "updates": (limits.max_updates or math.inf) * update_seconds / 60,
        "epochs": (limits.max_epochs or math.inf) * updates_per_epoch * update_seconds / 60,
        "minutes": limits.max_minutes or math.inf,
    }
    return min(minutes.items(), key=lambda item: item[1])


def _describe_duration(
    config: RunConfig, epoch_updates: int, update_seconds: float, limit: str, minutes: float
) -> CheckupLine:
    """Describes the length of the training.

    Args:
        config: the settings.
        epoch_updates: the number of updates in an epoch.
        update_seconds: the seconds of an update.
        limit: the limit that ends training, `updates`, `epochs` or `minutes`.
        minutes: the minutes until this limit.
    """
    updates = round(minutes * 60 / update_seconds)
    every = config.training.validate_every_updates or max(1, updates // VALIDATIONS)
    validations = f"{max(1, updates // every):,} validation{'s' if updates >= 2 * every else ''}"
    duration = f"{minutes:,.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"
    return CheckupLine(
        "training",
        f"about {duration} until training.max_{limit}: {updates:,} updates, "
        f"{updates / epoch_updates:.1f} epochs; {validations} not included",
        fine=updates >= every,
    )


def _describe_disk(config: RunConfig, model: keras.Model, root: Path) -> CheckupLine:
    """Describes the size of the checkpoints and the free space for them; `root` is the future folder of the run."""
    settings = config.training
    needed = checkpoint_bytes(model.count_params(), settings.keep_checkpoints, settings.average_checkpoints)
    folder = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    return CheckupLine(
        "disk",
        f"about {needed / MEGABYTE:,.1f} MB for checkpoints; {free / GIGABYTE:,.1f} GiB are free in {folder}",
        fine=needed < 0.5 * free,
    )


def state_bytes(parameters: int) -> int:
    """Returns the bytes of a model in training: weights, gradients and the two moments of Adam, in float32."""
    return 4 * 4 * parameters


def checkpoint_bytes(parameters: int, keep_checkpoints: int, average_checkpoints: int) -> int:
    """Returns the size of the checkpoints and the model file of a run, in bytes.

    A checkpoint has the weights and the two moments of Adam in float32. The model file has only the weights.

    Args:
        parameters: the number of parameters of the model.
        keep_checkpoints: the number of recent checkpoints.
        average_checkpoints: the number of checkpoints that are averaged. They count in addition to the recent ones.
    """
    checkpoints = keep_checkpoints + average_checkpoints + 1  # and the best checkpoint
    return 4 * parameters * (3 * checkpoints + 1)

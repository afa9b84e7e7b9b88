"""Estimates how long a training will take and how much disk space it needs, from a few updates and the settings."""

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..text.batches import Batch
from .step import TrainStepMetrics
from .stopping import Limits

TIMED_SECONDS = 12.0  # enough updates for an estimate
TIMED_UPDATES = 20


class StepSpeed(NamedTuple):
    """The mean speed of some updates.

    - seconds: seconds per update.
    - tokens_per_second: target tokens per second.
    - updates: the number of updates that were timed.
    """

    seconds: float
    tokens_per_second: float
    updates: int


def time_step(step: Callable[[Batch], TrainStepMetrics], batches: Iterable[Batch]) -> StepSpeed:
    """Times updates by the first batches, up to `TIMED_UPDATES` or `TIMED_SECONDS`."""
    started, tokens, updates = time.monotonic(), 0.0, 0
    for batch in batches:
        tokens += float(step(batch).tokens)  # waits for the update
        updates += 1
        if updates == TIMED_UPDATES or time.monotonic() - started > TIMED_SECONDS:
            break
    seconds = time.monotonic() - started
    return StepSpeed(seconds / updates, tokens / seconds, updates)


def nearest_limit(limits: Limits, updates_per_epoch: int, update_seconds: float) -> tuple[str, float]:
    """Returns which limit ends training first, `updates`, `epochs` or `minutes`, and after how many minutes."""
    minutes = {
        "updates": (limits.max_updates or math.inf) * update_seconds / 60,
        "epochs": (limits.max_epochs or math.inf) * updates_per_epoch * update_seconds / 60,
        "minutes": limits.max_minutes or math.inf,
    }
    return min(minutes.items(), key=lambda item: item[1])


def state_bytes(parameters: int) -> int:
    """Returns the memory that a training takes whatever the size of its batches, in bytes: weights, their gradients and
    Adam's two moments, in float32."""
    return 4 * 4 * parameters


def checkpoint_bytes(parameters: int, keep_checkpoints: int, average_checkpoints: int) -> int:
    """Returns the size of a run's checkpoints and model, in bytes.

    A checkpoint has the weights and two moments of each in float32. There is one more for the best, and the model file
    has weights alone. The best `average_checkpoints` may all differ from the recent ones.
    """
    checkpoints = keep_checkpoints + average_checkpoints + 1
    return 4 * parameters * (3 * checkpoints + 1)

"""Learning rates as a function of the update."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from ..config import names


def inverse_sqrt(update, warmup, total):
    """Returns `sqrt(warmup / update)` (Vaswani et al. 2017, equation 3)."""
    return (warmup / ops.maximum(update, 1)) ** 0.5


def linear(update, warmup, total):
    """Falls evenly to zero at `total`."""
    return ops.maximum((total - update + 1) / max(total - warmup, 1), 0)


def cosine(update, warmup, total):
    """Falls along half a wave to zero at `total` (Loshchilov and Hutter 2017, equation 5)."""
    return (1 - ops.cos(math.pi * ops.minimum(linear(update, warmup, total), 1))) / 2


def constant(update, warmup, total):
    """Stays at the peak."""
    return 1.0


SCHEDULES: dict[str, Callable[[Any, int, int | None], Any]] = {
    "inverse_sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
}
"""The functions that compute the share of the peak after warm-up, one for each of `names.SCHEDULES`.

Each takes the update, a float tensor that counts from 1; the number of warm-up updates, at least 1; and the update at
which zero is reached, or None.
"""


@keras.saving.register_keras_serializable(package="qkv")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises evenly from zero to the peak, then changes as `kind` says. Updates are counted from 0.

    Args:
        kind: a key of `SCHEDULES`.
        peak: the highest learning rate, reached at update `warmup_updates - 1`.
        warmup_updates: number of updates over which the learning rate rises.
        total_updates: the update at which schedules that end at zero reach it.

    Raises:
        ValueError: there is no such schedule, or it needs `total_updates`.

    Example:
        >>> schedule = WarmupSchedule("linear", peak=1.0, warmup_updates=2, total_updates=4)
        >>> [float(schedule(update)) for update in range(4)]
        [0.5, 1.0, 1.0, 0.5]
    """

    def __init__(self, kind, peak, warmup_updates, total_updates=None):
        if kind not in SCHEDULES:
            raise ValueError(f"schedule: expected one of {', '.join(SCHEDULES)}, found {kind!r}")
        if names.SCHEDULES[kind].ends_at_zero and not total_updates:
            raise ValueError(f"schedule: {kind} needs total_updates")
        self.kind = kind
        self.peak = peak
        self.warmup_updates = warmup_updates
        self.total_updates = total_updates

    def __call__(self, update):
        done = ops.cast(update, "float32") + 1
        warmup = max(self.warmup_updates, 1)
        after = SCHEDULES[self.kind](done, warmup, self.total_updates)
        return self.peak * ops.minimum(ops.minimum(done / warmup, after), 1)

    def get_config(self):
        return {
            "kind": self.kind,
            "peak": self.peak,
            "warmup_updates": self.warmup_updates,
            "total_updates": self.total_updates,
        }

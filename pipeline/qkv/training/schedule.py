"""Learning rates as a function of the update."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

WARMUP_SHARE = 0.15  # of a total that is measured


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
"""The functions that compute the share of the peak after warm-up, one for each of `names.training.SCHEDULES`.

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

    Example:
        >>> schedule = WarmupSchedule("linear", peak=1.0, warmup_updates=2, total_updates=4)
        >>> [float(schedule(update)) for update in range(4)]
        [0.5, 1.0, 1.0, 0.5]
    """

    def __init__(self, kind, peak, warmup_updates, total_updates=None):
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
        return dict(vars(self))


class ClockSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises evenly from zero to the peak, then falls evenly to zero at a total that is set while training runs.

    Until `total_updates` is set, the rate rises and stays at the peak. From then on it is a function of the update and
    the total: it rises over `warmup_updates` or `WARMUP_SHARE` of the total, whichever is less, and falls linearly
    (Bergsma et al. 2025). Graphs read the total from its variable, so setting it traces no graph again.

    Args:
        peak: the highest learning rate.
        warmup_updates: the maximum number of updates over which the learning rate rises.

    Attributes:
        total_updates: a float32 scalar variable; 0 until it is set.

    Example:
        >>> schedule = ClockSchedule(peak=1.0, warmup_updates=2)
        >>> schedule.total_updates.assign(20)
        >>> [round(float(schedule(update)), 2) for update in (0, 1, 10, 19)]
        [0.5, 1.0, 0.56, 0.06]
    """

    def __init__(self, peak, warmup_updates):
        self.peak = peak
        self.warmup_updates = warmup_updates
        self.total_updates = keras.Variable(0.0, dtype="float32", trainable=False, name="total_updates")

    def __call__(self, update):
        done = ops.cast(update, "float32") + 1
        total = ops.convert_to_tensor(self.total_updates)
        warmup = max(self.warmup_updates, 1)
        capped = ops.maximum(ops.minimum(warmup, WARMUP_SHARE * total), 1)
        falling = (total - done + 1) / ops.maximum(total - capped, 1)
        share = ops.where(total > 0, ops.minimum(done / capped, falling), done / warmup)
        return self.peak * ops.clip(share, 0, 1)

"""Schedules of the learning rate, a function of the number of the update."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

WARMUP_SHARE = 0.15  # of an estimated total of updates


def inverse_sqrt(update, warmup, total):
    """Returns the share `sqrt(warmup / update)` of the peak (Vaswani et al. 2017, equation 3)."""
    return (warmup / ops.maximum(update, 1)) ** 0.5


def linear(update, warmup, total):
    """Returns a share of the peak that falls evenly from 1 after warm-up to zero after update `total`."""
    return ops.maximum((total - update + 1) / max(total - warmup, 1), 0)


def cosine(update, warmup, total):
    """Returns a share of the peak that falls from 1 after warm-up to zero after update `total`.

    It falls along half a cosine wave (Loshchilov and Hutter 2017, equation 5).
    """
    return (1 - ops.cos(math.pi * ops.minimum(linear(update, warmup, total), 1))) / 2


def constant(update, warmup, total):
    """Returns 1: the learning rate stays at the peak."""
    return 1.0


SCHEDULE_FUNCTIONS: dict[str, Callable[[Any, int, int | None], Any]] = {
    "inverse_sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
}
"""The function of each schedule with a known total in `config.choices.training.SCHEDULE_INFO`.

It takes the update, a float tensor that counts from 1; the number of warm-up updates, at least 1; and the number
of updates after which the rate is zero, or None. It returns the learning rate after warm-up as a share of the peak.
"""


@keras.saving.register_keras_serializable(package="qkv")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate rises evenly from zero to the peak, then follows the function `kind`. Updates count from 0.

    Args:
        kind: a key of `SCHEDULE_FUNCTIONS`.
        peak: the highest learning rate, reached at update `warmup_updates - 1`.
        warmup_updates: number of updates over which the learning rate rises.
        total_updates: the update at which `linear` and `cosine` reach zero. The other kinds ignore it.

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
        after = SCHEDULE_FUNCTIONS[self.kind](done, warmup, self.total_updates)
        return self.peak * ops.minimum(ops.minimum(done / warmup, after), 1)

    def get_config(self):
        return dict(vars(self))


class ClockSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate rises evenly from zero to the peak, then falls evenly to zero at an estimated total of updates.

    Before the first estimate, the rate rises and stays at the peak. From then on it is a function of the update and of
    all estimates: it rises over `warmup_updates` or `WARMUP_SHARE` of the first total, whichever is less, and falls
    linearly (Bergsma et al. 2025). After each further estimate it falls in a straight line from its current value to
    zero at the new total, so it never rises again. Graphs read the line from variables, so that a new total retraces no
    graph.

    Args:
        peak: the highest learning rate.
        warmup_updates: the maximum number of updates over which the learning rate rises.

    Example:
        >>> schedule = ClockSchedule(peak=1.0, warmup_updates=2)
        >>> schedule.follow([(0, 20), (10, 16)])
        >>> [round(float(schedule(update)), 2) for update in (0, 1, 10, 15)]
        [0.5, 1.0, 0.56, 0.09]
    """

    def __init__(self, peak, warmup_updates):
        self.peak = peak
        self.warmup_updates = max(warmup_updates, 1)
        self.warmup, self.slope, self.total = (
            keras.Variable(0.0, dtype="float32", trainable=False, name=name) for name in ("warmup", "slope", "total")
        )
        self.follow([])

    def follow(self, totals: Sequence[tuple[int, int]]) -> None:
        """Sets the line on which the rate falls.

        Args:
            totals: all estimates, oldest first: pairs of the number of updates made before the estimate and the total;
                empty before the first estimate.
        """
        _, total = totals[0] if totals else (0, 0)
        warmup = max(min(self.warmup_updates, WARMUP_SHARE * total), 1) if totals else self.warmup_updates
        slope = 1 / max(total - warmup, 1)
        for update, later in totals[1:]:
            start = max(update, warmup)
            slope *= max(total - start, 0) / max(later - start, 1)
            total = later
        for variable, value in ((self.warmup, warmup), (self.slope, slope), (self.total, total)):
            variable.assign(value)

    def __call__(self, update):
        done = ops.cast(update, "float32") + 1
        warmup, slope, total = (ops.convert_to_tensor(value) for value in (self.warmup, self.slope, self.total))
        falling = ops.where(total > 0, slope * (total - done + 1), 1)
        return self.peak * ops.clip(ops.minimum(done / warmup, falling), 0, 1)

"""Learning rates as a function of the update."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="qkv")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises evenly from zero to the peak, then goes on as `kind` says. Updates are counted from 0.

    - `inverse_sqrt`: `peak * sqrt(warmup / update)` (Vaswani et al. 2017, equation 3).
    - `linear`: down to zero at `total_updates`.
    - `cosine`: the same along half a wave (Loshchilov and Hutter 2017, equation 5).
    - `constant`: stays at the peak.

    Args:
        kind: as above.
        peak: the highest learning rate, that of update `warmup_updates - 1`.
        warmup_updates: number of updates of the rise.
        total_updates: for `linear` and `cosine`, the update at which zero is reached.
    """

    def __init__(self, kind, peak, warmup_updates, total_updates=None):
        if kind not in ("inverse_sqrt", "linear", "cosine", "constant"):
            raise ValueError(f"schedule: expected inverse_sqrt, linear, cosine or constant, found {kind!r}")
        if kind in ("linear", "cosine") and not total_updates:
            raise ValueError(f"schedule: {kind} needs total_updates")
        self.kind = kind
        self.peak = peak
        self.warmup_updates = warmup_updates
        self.total_updates = total_updates

    def __call__(self, update):
        done = ops.cast(update, "float32") + 1
        warmup = max(self.warmup_updates, 1)
        if self.kind == "inverse_sqrt":
            after = (warmup / ops.maximum(done, 1)) ** 0.5
        elif self.kind in ("linear", "cosine"):
            after = ops.maximum((self.total_updates - done + 1) / max(self.total_updates - warmup, 1), 0)
            if self.kind == "cosine":
                after = (1 - ops.cos(math.pi * ops.minimum(after, 1))) / 2
        else:
            after = 1.0
        return self.peak * ops.minimum(ops.minimum(done / warmup, after), 1)

    def get_config(self):
        return {
            "kind": self.kind,
            "peak": self.peak,
            "warmup_updates": self.warmup_updates,
            "total_updates": self.total_updates,
        }

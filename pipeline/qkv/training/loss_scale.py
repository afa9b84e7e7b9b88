"""Keeps gradients in the narrow range of float16: the loss is scaled up, and an update that overflows is left out."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

# The loss is a sum over some thousand tokens, not a mean, and so starts as high as another would at 2^22.
START = 2.0**10
LEAST, MOST = 2.0**-20, 2.0**24
"""A gradient that overflows at the least scale overflows at any: training has diverged."""
GOOD_UPDATES = 2000
"""In a row, after which the scale is doubled (Micikevicius et al. 2018, section 3.2)."""


class LossScale:
    """The scale of a loss: halved where a gradient is not finite, doubled after many updates whose gradients are.

    Args:
        strategy: the strategy that holds the replicas.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        def count(initial):
            return tf.Variable(initial, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

        with strategy.scope():
            self.scale = count(START)
            self._good = count(0)  # updates in a row
            self._skipped = count(0)

    def update(self, finite: Any, apply: Callable[[], None], skip: Callable[[], None]) -> None:
        """Calls `apply` where the gradient is finite and `skip` where not, and adapts the scale. Part of a graph.

        Args:
            finite: bool scalar.
            apply: makes the update.
            skip: does what is due without it.
        """

        def keep():
            apply()
            is_due = self._good + 1 >= GOOD_UPDATES
            self.scale.assign(tf.where(is_due, tf.minimum(2 * self.scale, MOST), self.scale))
            self._good.assign(tf.where(is_due, 0, self._good + 1))
            return tf.constant(0)

        def leave_out():
            skip()
            self.scale.assign(tf.maximum(self.scale / 2, LEAST))
            self._good.assign(0)
            self._skipped.assign_add(1)
            return tf.constant(0)

        tf.cond(finite, keep, leave_out)

    @property
    def skipped(self) -> int:
        """The number of updates that were left out, since the run began."""
        return int(self._skipped)

    def state(self) -> dict[str, float]:
        """Returns what a checkpoint keeps."""
        return {"scale": float(self.scale), "good": int(self._good), "skipped": int(self._skipped)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Takes the state of a checkpoint; an empty one is that of a run that began in another precision."""
        self.scale.assign(state.get("scale", START))
        self._good.assign(int(state.get("good", 0)))
        self._skipped.assign(int(state.get("skipped", 0)))

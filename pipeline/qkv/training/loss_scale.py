"""The scale of the loss in float16, and updates that are left out because a gradient overflows.

Small gradients become zero in float16. The loss is therefore multiplied by a scale before the backward pass, and the
gradients are divided by it afterwards (Micikevicius et al. 2018, section 3.2).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

# The loss is a sum over some thousand tokens. A mean of about the same scaled size would start at 2^22.
FIRST_SCALE = 2.0**10
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-20, 2.0**24
"""The bounds of the scale. A gradient that overflows at `SMALLEST_SCALE` overflows at any scale: training has
diverged."""
GOOD_UPDATES = 2000
"""The number of finite updates in a row after which the scale is doubled (Micikevicius et al. 2018, section 3.2)."""


class LossScale:
    """The scale of the loss: halved after a gradient that is not finite, doubled after `GOOD_UPDATES` finite ones.

    Args:
        strategy: the strategy that holds the replicas.

    Attributes:
        scale: the factor of the loss, a float32 variable from `SMALLEST_SCALE` to `LARGEST_SCALE`.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        def make_variable(initial):
            return tf.Variable(initial, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

        with strategy.scope():
            self.scale = make_variable(FIRST_SCALE)
            self._good = make_variable(0)  # finite updates in a row
            self._skipped = make_variable(0)

    def apply_if_finite(
        self, optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any], variables: Sequence[Any], norm: Any
    ) -> Any:
        """Applies the gradients if their norm is finite, leaves the update out otherwise, and adapts the scale.

        Part of a graph.

        Args:
            optimizer: the optimizer.
            gradients: the gradient of each variable, without the scale.
            variables: the variables.
            norm: the norm of all gradients, a float32 scalar.

        Returns:
            The norm to report: 0 if the update was left out. It stays infinite or NaN if the scale is at
            `SMALLEST_SCALE` already, so that `training.stopping.check_finite` ends the training.
        """
        is_finite = tf.math.is_finite(norm)
        reported = tf.where(tf.logical_or(is_finite, self.scale <= SMALLEST_SCALE), norm, 0.0)
        self.update(
            is_finite,
            lambda: optimizer.apply_gradients(zip(gradients, variables, strict=True)),
            lambda: optimizer.iterations.assign_add(1),  # counts for the schedule of the learning rate as well
        )
        return reported

    def update(self, is_finite: Any, apply: Callable[[], Any], skip: Callable[[], Any]) -> None:
        """Calls one of two functions, and adapts the scale and its counters. Part of a graph.

        Args:
            is_finite: whether the gradients are finite, a bool scalar.
            apply: applies the gradients; called if `is_finite` is True.
            skip: leaves the update out; called if `is_finite` is False.
        """

        def apply_and_count():
            apply()
            is_due = self._good + 1 >= GOOD_UPDATES
            self.scale.assign(tf.where(is_due, tf.minimum(2 * self.scale, LARGEST_SCALE), self.scale))
            self._good.assign(tf.where(is_due, 0, self._good + 1))
            return tf.constant(0)

        def skip_and_halve():
            skip()
            self.scale.assign(tf.maximum(self.scale / 2, SMALLEST_SCALE))
            self._good.assign(0)
            self._skipped.assign_add(1)
            return tf.constant(0)

        tf.cond(is_finite, apply_and_count, skip_and_halve)

    @property
    def skipped(self) -> int:
        """The number of updates that were left out since the run began."""
        return int(self._skipped)

    def state(self) -> dict[str, float]:
        """Returns the state for a checkpoint: `scale`, `good` (finite updates in a row) and `skipped`."""
        return {"scale": float(self.scale), "good": int(self._good), "skipped": int(self._skipped)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Restores a state that `state()` returned.

        An empty dict, from a run in another precision, sets the scale to `FIRST_SCALE` and the counters to 0.
        """
        self.scale.assign(state.get("scale", FIRST_SCALE))
        self._good.assign(int(state.get("good", 0)))
        self._skipped.assign(int(state.get("skipped", 0)))

"""Sums over the batches of an update that is larger than what fits into memory at once."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Accumulator:
    """Adds up tensors from one call of a graph to the next, separately on each replica.

    Args:
        shapes: the shapes of the tensors, which are float32.
        strategy: the strategy that holds the replicas.
    """

    def __init__(self, shapes: Sequence[Any], strategy: tf.distribute.Strategy) -> None:
        with strategy.scope():
            self.sums = [
                tf.Variable(
                    tf.zeros(shape),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for shape in shapes
            ]

    def add(self, values: Sequence[Any]) -> None:
        """Adds one value to each sum."""
        for total, value in zip(self.sums, values, strict=True):
            total.assign_add(value)

    def take(self, values: Sequence[Any]) -> list[Any]:
        """Adds these last values, returns the sums, and starts again from zero."""
        totals = [total + value for total, value in zip(self.sums, values, strict=True)]
        with tf.control_dependencies(totals):
            self.clear()
        return totals

    def clear(self) -> None:
        """Starts again from zero."""
        for total in self.sums:
            total.assign(tf.zeros_like(total))

"""What several workers agree on while they train."""

from collections.abc import Sequence

import tensorflow as tf


class Agreement:
    """Adds up numbers of all workers, or tells them the chief's. Each worker must ask for the same at the same update.

    Args:
        strategy: the strategy that holds the workers.
        chief: whether this worker is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy, chief: bool = True) -> None:
        self.chief = chief
        self.alone = strategy.num_replicas_in_sync == 1

        @tf.function(autograph=False)
        def sum_over_workers(values):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

        self._sum_over_workers = sum_over_workers

    def sums(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each number over all replicas."""
        return [float(total) for total in self._sum_over_workers(tf.constant(values, tf.float32)).numpy()]

    def of_chief(self, value: float) -> float:
        """Returns the chief's number, an integer up to `2**24` or a rounded one."""
        if self.alone:
            return value
        total, replicas = self.sums([value, 1.0] if self.chief else [0.0, 0.0])
        return total / replicas

"""What several workers agree on while they train."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..runtime.workers import Workers


class Agreement:
    """Adds up numbers of all workers, or tells them the chief's. Each worker must ask for the same at the same update.

    Args:
        strategy: the strategy that holds the workers.
        workers: the workers; None for a single process, on one device or several.
    """

    def __init__(self, strategy: tf.distribute.Strategy, workers: Workers | None = None) -> None:
        self.strategy = strategy
        self.workers = workers
        self.alone = workers is None
        self.chief = workers is None or workers.is_chief

        @tf.function(autograph=False)
        def sum_over_workers(values):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

        self._sum_over_workers = sum_over_workers

    def sums(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each number over all replicas."""
        return [float(total) for total in self._sum_over_workers(tf.constant(values, tf.float32)).numpy()]

    def of_chief(self, value: Any, for_what: str = "to go on") -> Any:
        """Returns the chief's value, which JSON can hold."""
        return value if self.workers is None else self.workers.of_chief(value, for_what)

    def by_chief(self, compute: Callable[[], Any], for_what: str) -> Any:
        """Returns what the chief computes; the others wait for it."""
        return self.of_chief(compute() if self.chief else None, for_what)

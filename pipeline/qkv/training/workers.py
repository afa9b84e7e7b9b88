"""The workers of a training compare their start, and agree while they train."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ..errors import InputError
from ..files.paths import sha256
from ..runtime.workers import Workers
from .checkpoints import Checkpoints, load_checkpoint
from .progress import Progress


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


PREPARING = "to prepare the text"


def check_same_settings(workers: Workers | None, settings: Mapping[str, Any]) -> None:
    """Compares the settings of all workers, by dotted key.

    Raises:
        InputError: they differ.
    """
    if workers is None:
        return
    first, *others = workers.exchange("settings", dict(settings), "to start")
    for index, other in enumerate(others, 1):
        for key in {**first, **other}:
            if first.get(key) != other.get(key):
                raise InputError(
                    f"config: {key} is {other.get(key)!r} on {workers.cluster.describe(index)}, expected "
                    f"{first.get(key)!r} as on {workers.cluster.describe(0)}; give the same command on all workers"
                )


def wait_for_text(workers: Workers | None) -> None:
    """Waits until the chief has prepared the text."""
    if workers is not None and not workers.is_chief:
        workers.hear(0, "text", PREPARING)


def check_same_text(workers: Workers, digests: Mapping[str, str]) -> None:
    """Compares the files that were read, by name; files that not all workers have are not compared.

    Raises:
        InputError: they differ.
    """
    _compare(workers, workers.exchange("text", dict(digests), PREPARING))


def restore_together(
    workers: Workers | None, checkpoints: Checkpoints, model: Any, optimizer: Any, started: bool
) -> Progress:
    """Loads the newest intact checkpoint of the chief into model and optimizer of all workers.

    Args:
        workers: all workers; None for a single process.
        checkpoints: of the run; each worker reads its own.
        model: the model.
        optimizer: its optimizer.
        started: whether there is something to load; the chief's answer counts.

    Raises:
        InputError: as `Checkpoints.restore`, or a worker does not have that checkpoint.
    """
    if workers is None or workers.is_chief:
        progress = checkpoints.restore(model, optimizer) if started else Progress()
        if workers is None:
            return progress
    newest = workers.of_chief(checkpoints.last().name if workers.is_chief and started else None, "to load a checkpoint")
    if newest is None:
        return Progress()
    path = checkpoints.folder / newest
    if not path.is_file():
        own, chief = (workers.cluster.describe(index) for index in (workers.cluster.index, 0))
        raise InputError(
            f"checkpoints/{newest}: {own} does not have the checkpoint from which {chief} continues; set run.directory "
            "to a folder that all workers share, or copy the run's folder to all of them"
        )
    _compare(workers, workers.exchange("checkpoint", {f"checkpoints/{newest}": sha256(path)}, "to load a checkpoint"))
    return progress if workers.is_chief else load_checkpoint(path, model, optimizer, checkpoints.origin)


def _compare(workers: Workers, digests: list[dict[str, str]]) -> None:
    first, *others = digests
    for index, other in enumerate(others, 1):
        for name, digest in other.items():
            if first.get(name, digest) != digest:
                raise InputError(
                    f"{name}: {workers.cluster.describe(index)} has another file than {workers.cluster.describe(0)} "
                    f"(SHA-256 {digest[:12]}..., expected {first[name][:12]}...); give all workers the same files, or "
                    "share one folder"
                )

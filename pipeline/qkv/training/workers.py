"""The workers of a training compare their start, and agree while they train."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ..errors import InputError
from ..files.paths import sha256
from ..runtime.workers import Workers
from .checkpoints import Checkpoints, load_checkpoint
from .progress import Progress


class SingleProcess(Workers):
    """The only worker of a training, which is its chief and asks nobody."""

    is_chief = True

    def __init__(self) -> None: ...

    def of_chief(self, value: Any, for_what: str) -> Any:
        return value

    def exchange(self, key: str, value: Any, for_what: str) -> list[Any]:
        return [value]


class WorkerVotes:
    """Adds up numbers of all workers. Each worker must ask for the same sums at the same update.

    Attributes:
        alone: whether there is a single process, on one device or several.
        is_chief: whether this process is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy, workers: Workers) -> None:
        self.alone = isinstance(workers, SingleProcess)
        self.is_chief = workers.is_chief

        @tf.function(autograph=False)
        def sum_over_workers(values):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

        self._sum_over_workers = sum_over_workers

    def sums(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each number over all replicas."""
        return [float(total) for total in self._sum_over_workers(tf.constant(values, tf.float32)).numpy()]


PREPARING = "to prepare the text"


def check_same_settings(workers: Workers, settings: Mapping[str, Any]) -> None:
    """Compares the settings of all workers, by dotted key; raises an `InputError` if they differ."""
    first, *others = workers.exchange("settings", dict(settings), "to start")
    for index, other in enumerate(others, 1):
        for key in {**first, **other}:
            if first.get(key) != other.get(key):
                own, chief = (workers.cluster.describe(number) for number in (index, 0))
                found = f"{other.get(key)!r:.60} on {own}, expected {first.get(key)!r:.60} as on {chief}"
                raise InputError(f"config: {key} is {found}; give the same command on all workers")


def wait_for_text(workers: Workers) -> None:
    """Waits until the chief has prepared the text."""
    if not workers.is_chief:
        workers.hear(0, "text", PREPARING)


def check_same_text(workers: Workers, digests: Mapping[str, str]) -> None:
    """Compares the digests of the files that all workers have, by name; raises an `InputError` if they differ."""
    _compare_files(workers, "text", digests, PREPARING)


def restore_together(workers: Workers, checkpoints: Checkpoints, model: Any, optimizer: Any, started: bool) -> Progress:
    """Loads the newest intact checkpoint of the chief into model and optimizer of all workers, each from a folder of
    its own, if training has `started`; the chief's answer counts.

    Raises:
        InputError: as `Checkpoints.restore`, or a worker does not have that checkpoint.
    """
    restores = workers.is_chief and started
    progress = checkpoints.restore(model, optimizer) if restores else Progress()
    newest = workers.of_chief(checkpoints.last().name if restores else None, "to load a checkpoint")
    if newest is None:
        return progress
    path = checkpoints.folder / newest
    if not path.is_file():
        own, chief = (workers.cluster.describe(index) for index in (workers.cluster.index, 0))
        raise InputError(
            f"checkpoints/{newest}: {own} does not have the checkpoint from which {chief} continues; set run.directory "
            "to a folder that all workers share, or copy the run's folder to all of them"
        )
    _compare_files(workers, "checkpoint", {f"checkpoints/{newest}": sha256(path)}, "to load a checkpoint")
    return progress if workers.is_chief else load_checkpoint(path, model, optimizer, checkpoints.origin)


def _compare_files(workers: Workers, key: str, digests: Mapping[str, str], for_what: str) -> None:
    first, *others = workers.exchange(key, dict(digests), for_what)
    for index, other in enumerate(others, 1):
        for name, digest in other.items():
            if first.get(name, digest) != digest:
                own, chief = (workers.cluster.describe(number) for number in (index, 0))
                raise InputError(f"{name}: {own} has another file than {chief}; give all workers the same files")

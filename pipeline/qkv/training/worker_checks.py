"""Checks that all workers of a training start from the same settings, text and checkpoint; and sums of their votes."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ..errors import InputError
from ..files.paths import sha256
from ..runtime.workers import Workers
from .checkpoints import Checkpoints, load_checkpoint
from .progress import Progress


class SingleProcess(Workers):
    """The `Workers` of a training in a single process, which is the chief. Nothing is sent."""

    is_chief = True

    def __init__(self) -> None: ...

    def broadcast_from_chief(self, value: Any, for_what: str) -> Any:
        return value

    def exchange(self, key: str, value: Any, for_what: str) -> list[Any]:
        return [value]


class WorkerVotes:
    """Sums numbers over all workers, so that the workers can vote. All workers must call `sums` after the same updates.

    Args:
        strategy: the strategy of the training.
        workers: the workers.

    Attributes:
        alone: True if a single process trains, on one device or several.
        is_chief: True if this process is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy, workers: Workers) -> None:
        self.alone = isinstance(workers, SingleProcess)
        self.is_chief = workers.is_chief

        @tf.function(autograph=False)
        def sum_over_workers(values):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

        self._sum_over_workers = sum_over_workers

    def sums(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each number over all replicas. Every replica of a worker adds the worker's number."""
        return [float(total) for total in self._sum_over_workers(tf.constant(values, tf.float32)).numpy()]


PREPARING = "to prepare the text"


def check_equal_settings(workers: Workers, settings: Mapping[str, Any]) -> None:
    """Checks that all workers have the same settings. Every worker must call it.

    Args:
        workers: the workers.
        settings: the values of this worker's settings by dotted key.

    Raises:
        InputError: a setting of another worker differs from the chief's, or another worker has reported a mistake.
        LostWorkerError: another worker does not answer in time.
    """
    chief_settings, *other_settings = workers.exchange("settings", dict(settings), "to start")
    for index, worker_settings in enumerate(other_settings, 1):
        for key in {**chief_settings, **worker_settings}:
            value = worker_settings.get(key)
            expected = chief_settings.get(key)
            if value != expected:
                worker = workers.cluster.describe(index)
                chief = workers.cluster.describe(0)
                raise InputError(
                    f"config: {key} is {value!r:.60} on {worker}, expected {expected!r:.60} as on {chief}; give the "
                    "same command on all workers"
                )


def wait_for_text(workers: Workers) -> None:
    """Waits until the chief has prepared the text. On the chief, returns at once.

    Raises:
        InputError: another worker has reported a mistake.
        LostWorkerError: the chief has not prepared the text in time.
    """
    if not workers.is_chief:
        workers.receive(0, "text", PREPARING)


def check_equal_text(workers: Workers, digests: Mapping[str, str]) -> None:
    """Checks that all workers have the same files of text. Every worker must call it.

    Args:
        workers: the workers.
        digests: the SHA-256 digest of each file of this worker by its name. A file that the chief lacks is ignored.

    Raises:
        InputError: a file of another worker differs from the chief's, or another worker has reported a mistake.
        LostWorkerError: another worker does not answer in time.
    """
    _compare_files(workers, "text", digests, PREPARING)


def restore_together(workers: Workers, checkpoints: Checkpoints, model: Any, optimizer: Any, started: bool) -> Progress:
    """Loads the newest intact checkpoint of the chief into the model and optimizer of all workers.

    Args:
        workers: the workers.
        checkpoints: the checkpoints in the run's folder, as this worker sees it.
        model: the model.
        optimizer: the optimizer.
        started: True if the training has checkpoints. The chief's value counts.

    Returns:
        The progress of the training; the progress of a new training if there are no checkpoints.

    Raises:
        InputError: see `Checkpoints.restore`; or a worker lacks the chief's checkpoint, or has a different file of the
            same name; or another worker has reported a mistake.
        LostWorkerError: another worker does not answer in time.
    """
    restores = workers.is_chief and started
    progress = checkpoints.restore(model, optimizer) if restores else Progress()
    newest = workers.broadcast_from_chief(checkpoints.last().name if restores else None, "to load a checkpoint")
    if newest is None:
        return progress
    path = checkpoints.folder / newest
    if not path.is_file():
        worker = workers.cluster.describe(workers.cluster.index)
        chief = workers.cluster.describe(0)
        raise InputError(
            f"checkpoints/{newest}: {worker} does not have the checkpoint from which {chief} continues; set "
            "run.directory to a folder that all workers share, or copy the run's folder to all of them"
        )
    _compare_files(workers, "checkpoint", {f"checkpoints/{newest}": sha256(path)}, "to load a checkpoint")
    return progress if workers.is_chief else load_checkpoint(path, model, optimizer, checkpoints.origin)


def _compare_files(workers: Workers, key: str, digests: Mapping[str, str], for_what: str) -> None:
    """Raises an `InputError` if a file of another worker has another digest than the chief's file of the same name."""
    chief_digests, *other_digests = workers.exchange(key, dict(digests), for_what)
    for index, worker_digests in enumerate(other_digests, 1):
        for name, digest in worker_digests.items():
            if chief_digests.get(name, digest) != digest:
                worker = workers.cluster.describe(index)
                chief = workers.cluster.describe(0)
                raise InputError(f"{name}: {worker} has another file than {chief}; give all workers the same files")

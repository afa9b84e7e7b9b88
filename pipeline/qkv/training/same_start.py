"""Several workers start from the same settings, text, tokenizer and checkpoint: they are compared before the start."""

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..files.paths import sha256
from ..runtime.workers import Workers
from .checkpoint import Progress, load_checkpoint
from .checkpoint_folder import Checkpoints

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

"""Checkpoints: the state of a training, each in a NumPy archive, which holds data and no code.

The module saves and loads them, deletes superseded ones, and chooses the weights of the finished model.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..config.choices.translation import rank
from ..errors import DAMAGE, InputError
from ..files.arrays import ArrayFile
from ..files.atomic import replaced_when_done
from ..files.written import FileList
from .progress import Progress

log = logging.getLogger(__name__)


def _variables(model: keras.Model, optimizer: keras.optimizers.Optimizer | None) -> dict[str, Any]:
    """Returns the variables of a checkpoint by name. If `optimizer` is None, they are the model's variables only."""
    # model.variables includes the state of dropout's random numbers, which model.weights lacks.
    groups = {"model": model.variables, "optimizer": [] if optimizer is None else optimizer.variables}
    return {
        f"{group}/{number:04d}/{_stable_path(variable.path)}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def _stable_path(path: str) -> str:
    """Returns a variable's path without the number that Keras adds to a name if the process has used it before."""
    return re.sub(r"\b(seed_generator|adam|muon)_\d+\b", r"\1", path)


def save_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
    """Writes a checkpoint, from which a run can continue: the variables of model and optimizer, and the progress.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = {name: keras.ops.convert_to_numpy(variable) for name, variable in _variables(model, optimizer).items()}
    with replaced_when_done(path) as temporary:
        np.savez(temporary, progress=np.array(json.dumps(asdict(progress))), **arrays)


def load_checkpoint(
    path: Path,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
    origin: Mapping[str, str] | None = None,
) -> Progress:
    """Loads a checkpoint into a model and its optimizer.

    Args:
        path: the checkpoint.
        model: the model.
        optimizer: the optimizer; None if training does not continue.
        origin: the fingerprint of the run, see `text.corpora.provenance.origin_of`. The checkpoint must have the same
            one. None accepts a checkpoint of any run.

    Returns:
        The progress of the run at the checkpoint.

    Raises:
        InputError: the checkpoint is missing or damaged, has numbers that are not finite, or is of another run or of a
            model with other settings. The model and the optimizer do not change.
    """
    expected = _variables(model, optimizer)
    try:
        with ArrayFile(path) as archive:
            progress = Progress.parse(str(archive.read("progress", "U", ())))
            _check_origin(path, progress, origin or {})
            stored = {_stable_path(name): name for name in archive.names if name != "progress"}
            # A model that is not trained further needs no variables of the optimizer.
            mismatch = set(expected) - set(stored) if optimizer is None else set(expected) ^ set(stored)
            if mismatch:
                raise InputError(
                    f"{path}: the checkpoint is of another model: only one of the two has {min(mismatch)}; the config "
                    "was changed after training: restore it"
                )
            values = {
                name: archive.read(stored[name], "f" if "float" in variable.dtype else "iub")
                for name, variable in expected.items()
            }
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{path}: the checkpoint is missing or damaged ({error}); use another one") from None
    for name, variable in expected.items():
        if values[name].shape != tuple(variable.shape):
            raise InputError(
                f"{path}: the checkpoint is of another model: expected {variable.path} of shape {tuple(variable.shape)}"
                f", found {values[name].shape}; the config or the tokenizer was changed after training: restore both"
            )
        if not np.isfinite(values[name]).all():
            raise InputError(f"{path}: {variable.path} has numbers that are not finite; use another checkpoint")
    for name, variable in expected.items():
        variable.assign(values[name])
    return progress


def load_mean(paths: Sequence[Path], model: keras.Model, origin: Mapping[str, str] | None = None) -> None:
    """Loads the mean of the weights of several checkpoints into a model (Vaswani et al. 2017, section 6.1).

    Args:
        paths: the checkpoints.
        model: the model. Variables that are not trained get the values of the last checkpoint.
        origin: see `load_checkpoint`.

    Raises:
        InputError: see `load_checkpoint`.
    """
    totals = [np.zeros(variable.shape) for variable in model.trainable_variables]
    for path in paths:
        load_checkpoint(path, model, origin=origin)
        for total, variable in zip(totals, model.trainable_variables, strict=True):
            total += keras.ops.convert_to_numpy(variable)
    for total, variable in zip(totals, model.trainable_variables, strict=True):
        variable.assign((total / len(paths)).astype("float32"))


def _check_origin(path: Path, progress: Progress, origin: Mapping[str, str]) -> None:
    """Raises an `InputError` if the checkpoint is of another run, or not of the update in its file name.

    The run is compared by its fingerprint `origin`. A part of it that the checkpoint lacks is not compared.
    """
    changed = [name for name in origin if progress.origin.get(name, origin[name]) != origin[name]]
    if changed:
        raise InputError(
            f"{path}: the checkpoint is of another run, with another {' and '.join(changed)}; restore the checkpoint, "
            f"or the {' and the '.join(changed)} of the run"
        )
    number = re.fullmatch(r"(?:update|passing)-([0-9]{8,})", path.stem)
    if number and int(number[1]) != progress.update:
        raise InputError(f"{path}: of update {progress.update}, not of the update in its name; rename it")


class Checkpoints:
    """The folder of a run's checkpoints.

    Each validation saves a checkpoint, such as `update-00000500.npz`, and saves it as `best.npz` too if it is the best
    so far. Between validations there is at most one interim checkpoint, such as `passing-00000512.npz`; the next
    checkpoint replaces it. A new checkpoint is on the disk before an older one is deleted. If the newest one is damaged
    later, training continues from the one before it.

    Args:
        folder: the folder, which need not exist yet.
        keep: number of checkpoints of the last validations to keep.
        origin: the run's fingerprint, see `text.corpora.provenance.origin_of`. A checkpoint with another fingerprint is
            not loaded.

    Attributes:
        best: the path of `best.npz`.
    """

    def __init__(self, folder: Path, keep: int = 1, origin: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.origin = dict(origin or {})
        self.best = folder / "best.npz"

    def recent(self) -> Sequence[Path]:
        """Returns the paths of the existing checkpoints of validations, oldest first, without `best.npz`."""
        return sorted(self._named("update"))

    def all(self) -> Sequence[Path]:
        """Returns the paths of all checkpoints, of validations and interim, oldest first, without `best.npz`."""
        return sorted([*self.recent(), *self._named("passing")], key=lambda path: path.stem.split("-")[::-1])

    def _named(self, kind: str) -> Iterator[Path]:
        """Yields the paths of the checkpoints of a kind: `update`, of validations, or `passing`, interim ones.

        Other files, such as copies, are left out.
        """
        return (path for path in self.folder.glob("*.npz") if re.fullmatch(rf"{kind}-[0-9]{{8,}}", path.stem))

    def save_interim(self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
        """Saves an interim checkpoint, and deletes the interim checkpoint before it.

        Raises:
            OSError: the file cannot be written.
        """
        path = self.folder / f"passing-{progress.update:08d}.npz"
        save_checkpoint(path, model, optimizer, replace(progress, origin=self.origin))
        self.delete_superseded()

    def save(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress, best: bool = False
    ) -> None:
        """Saves the checkpoint of a validation, and deletes the superseded ones.

        Args:
            model: the model.
            optimizer: its optimizer.
            progress: the progress of the run.
            best: if True, the checkpoint is saved as `best.npz` too.

        Raises:
            OSError: a file cannot be written.
        """
        progress = replace(progress, origin=self.origin)
        path = self.folder / f"update-{progress.update:08d}.npz"
        if best:  # first: if the process dies in between, no checkpoint names a best update that is not saved
            save_checkpoint(self.best, model, optimizer, progress)
        save_checkpoint(path, model, optimizer, progress)
        self.delete_superseded()

    def delete_superseded(self) -> None:
        """Deletes the run's checkpoints except the newest checkpoint and the last `keep` checkpoints of validations.

        Files that the run did not write are never deleted.
        """
        superseded = [path for path in self.all() if self._is_written_by_run(path)][:-1]
        recent = [path for path in self.recent() if self._is_written_by_run(path)][-self.keep :]
        for path in superseded:
            if path not in recent:
                path.unlink()

    def _is_written_by_run(self, path: Path) -> bool:
        """Returns whether the run wrote the file; True if the run has no list of its files."""
        written = FileList(self.folder.parent)
        return not written.exists() or written.holds(path)

    def restore(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Progress:
        """Loads the newest intact checkpoint into model and optimizer.

        If the newest checkpoint is not intact, the newest intact one is loaded with a warning. Then the damaged one is
        deleted; if the run did not write it, it is renamed instead.

        Returns:
            The progress of the run at the checkpoint.

        Raises:
            InputError: there is no checkpoint, or none can be loaded; see `load_checkpoint`.
        """
        newest = self.last()
        problems = []
        for path in reversed(self.all()):
            try:
                progress = load_checkpoint(path, model, optimizer, self.origin)
            except InputError as error:
                problems.append(error)
                continue
            if problems:
                log.warning("%s\ncontinuing from the checkpoint before it: %s", problems[0], path)
                if self._is_written_by_run(newest):
                    newest.unlink(missing_ok=True)
                else:
                    newest.rename(newest.with_name(f"{newest.name}.other"))
            return progress
        raise problems[0]

    def last(self) -> Path:
        """Returns the path of the newest checkpoint from which training can continue.

        Raises:
            InputError: the folder has no such checkpoint.
        """
        if paths := self.all():
            return paths[-1]
        raise InputError(f"{self.folder}: no checkpoint to continue from; delete the run's folder and start again")


def keep_best_weights(
    model: keras.Model,
    checkpoints: Checkpoints,
    progress: Progress,
    validate: Callable[[], dict[str, float]],
    *,
    metric: str,
    average_checkpoints: int,
) -> tuple[str, float]:
    """Loads the weights that are best on validation into the model, at the end of a training.

    It compares the best checkpoint with the mean of the last `average_checkpoints` checkpoints of validations.

    Args:
        model: the model.
        checkpoints: the checkpoints of the run.
        progress: the progress of the run, which has at least one validation.
        validate: measures the model with its current weights. It returns each metric by its name with the prefix
            `val_`.
        metric: the metric that is compared, without `val_`.
        average_checkpoints: number of checkpoints to average, at least 1. With 1, the best checkpoint is loaded.

    Returns:
        A description of the weights, such as `update 850`, and the value of their metric.

    Raises:
        InputError: see `load_checkpoint`.
    """
    assert progress.best_metric is not None
    paths = checkpoints.recent()[-average_checkpoints:]
    if len(paths) > 1:
        load_mean(paths, model, checkpoints.origin)
        validation = validate()
        value = validation[f"val_{metric}"]
        message = "validation %s: %.2f for the mean of the last %d checkpoints, %.2f for the best single one"
        log.info(message, metric, value, len(paths), progress.best_metric)
        if rank(metric, validation) < rank(metric, progress.best_validation):
            return f"the mean of the last {len(paths)} checkpoints", value
    load_checkpoint(checkpoints.best, model, origin=checkpoints.origin)
    return f"update {progress.best_update}", progress.best_metric

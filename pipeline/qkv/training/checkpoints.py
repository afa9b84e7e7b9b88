"""Checkpoints: the state of a training as one NumPy archive, which holds data and no code; which of them are kept, and
from which one training continues; and the weights of the finished model."""

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
    """Returns the variables of a checkpoint by name."""
    # model.variables includes the state of dropout's random numbers, which model.weights lacks.
    groups = {"model": model.variables, "optimizer": [] if optimizer is None else optimizer.variables}
    return {
        f"{group}/{number:04d}/{_stable(variable.path)}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def _stable(path: str) -> str:
    """Returns a variable's path without the numbers that Keras gives to further layers of a name in one process."""
    return re.sub(r"\b(seed_generator|adam|muon)_\d+\b", r"\1", path)


def save_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
    """Writes everything that a run needs to continue from here.

    Raises:
        OSError: it cannot be written.
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
    """Loads a checkpoint into a model, and into its optimizer to continue training.

    Args:
        path: the checkpoint.
        model: the model.
        optimizer: its optimizer; None for a model that is only used.
        origin: of which run the checkpoint must be, see `text.corpora.provenance.origin_of`.

    Raises:
        InputError: the checkpoint is missing, damaged, of another run, or of a model with other settings. The model is
            not changed.
    """
    wanted = _variables(model, optimizer)
    try:
        with ArrayFile(path) as archive:
            progress = Progress.parse(str(archive.read("progress", "U", ())))
            _check_origin(path, progress, origin or {})
            stored = {_stable(name): name for name in archive.names if name != "progress"}
            if odd := set(wanted) - set(stored) if optimizer is None else set(wanted) ^ set(stored):
                raise InputError(
                    f"{path}: the checkpoint is of another model: only one of the two has {min(odd)}; the config was "
                    "changed after training: restore it"
                )
            values = {
                name: archive.read(stored[name], "f" if "float" in variable.dtype else "iub")
                for name, variable in wanted.items()
            }
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{path}: the checkpoint is missing or damaged ({error}); use another one") from None
    for name, variable in wanted.items():
        if values[name].shape != tuple(variable.shape):
            raise InputError(
                f"{path}: the checkpoint is of another model: expected {variable.path} of shape {tuple(variable.shape)}"
                f", found {values[name].shape}; the config or the tokenizer was changed after training: restore both"
            )
        if not np.isfinite(values[name]).all():
            raise InputError(f"{path}: {variable.path} has numbers that are not finite; use another checkpoint")
    for name, variable in wanted.items():
        variable.assign(values[name])
    return progress


def load_mean(paths: Sequence[Path], model: keras.Model, origin: Mapping[str, str] | None = None) -> None:
    """Loads the mean of the weights of several checkpoints into a model (Vaswani et al. 2017, section 6.1).

    Raises:
        InputError: as for `load_checkpoint`.
    """
    totals = [np.zeros(variable.shape) for variable in model.trainable_variables]
    for path in paths:
        load_checkpoint(path, model, origin=origin)
        for total, variable in zip(totals, model.trainable_variables, strict=True):
            total += keras.ops.convert_to_numpy(variable)
    for total, variable in zip(totals, model.trainable_variables, strict=True):
        variable.assign((total / len(paths)).astype("float32"))


def _check_origin(path: Path, progress: Progress, origin: Mapping[str, str]) -> None:
    if others := [name for name in origin if progress.origin.get(name, origin[name]) != origin[name]]:
        raise InputError(
            f"{path}: the checkpoint is of another run, with another {' and '.join(others)}; restore the "
            "checkpoint, or what was changed"
        )
    number = re.fullmatch(r"(?:update|passing)-([0-9]{8,})", path.stem)
    if number and int(number[1]) != progress.update:
        raise InputError(f"{path}: of update {progress.update}, not of the update in its name; rename it")


class Checkpoints:
    """The folder of a run's checkpoints.

    Each validation saves one, such as `update-00000500.npz`, and saves it as `best.npz`, too, if it is the best so far.
    Between validations there is at most one interim checkpoint, such as `passing-00000512.npz`; the next validation
    deletes it. A checkpoint is on the disk before an older one is deleted, and if the newest is damaged later, training
    continues from the one before.

    Args:
        folder: the folder, which need not exist yet.
        keep: number of recent checkpoints of validations to keep.
        origin: of which run they are, see `text.corpora.provenance.origin_of`; a checkpoint of another is not loaded.
    """

    def __init__(self, folder: Path, keep: int = 1, origin: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.origin = dict(origin or {})
        self.best = folder / "best.npz"

    def recent(self) -> Sequence[Path]:
        """Returns the checkpoints of validations that are still there, oldest first."""
        return sorted(self._named("update"))

    def all(self) -> Sequence[Path]:
        """Returns all checkpoints from which training can continue, oldest first."""
        return sorted([*self.recent(), *self._named("passing")], key=lambda path: path.stem.split("-")[::-1])

    def _named(self, kind: str) -> Iterator[Path]:
        """Yields the checkpoints of a kind; copies that people have put beside them have other names."""
        return (path for path in self.folder.glob("*.npz") if re.fullmatch(rf"{kind}-[0-9]{{8,}}", path.stem))

    def save_interim(self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
        """Saves an interim checkpoint, which replaces the one before."""
        path = self.folder / f"passing-{progress.update:08d}.npz"
        save_checkpoint(path, model, optimizer, replace(progress, origin=self.origin))
        self.delete_superseded()

    def save(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress, best: bool = False
    ) -> None:
        """Saves the checkpoint of a validation, also as the best one if it is, and deletes those no longer needed."""
        progress = replace(progress, origin=self.origin)
        path = self.folder / f"update-{progress.update:08d}.npz"
        for place in [self.best, path] if best else [path]:  # the best first, or a checkpoint may name one that is not
            save_checkpoint(place, model, optimizer, progress)
        self.delete_superseded()

    def delete_superseded(self) -> None:
        """Deletes the checkpoints that are no longer needed, of those that the run wrote."""
        older = [path for path in self.all() if self._is_own(path)][:-1]
        recent = [path for path in self.recent() if self._is_own(path)][-self.keep :]
        for old in older:
            if old not in recent:
                old.unlink()

    def _is_own(self, path: Path) -> bool:
        written = FileList(self.folder.parent)
        return not written.exists() or written.holds(path)

    def restore(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Progress:
        """Loads the newest checkpoint that is intact into model and optimizer, warns of a damaged one, and deletes it,
        or renames it if the run did not write it.

        Raises:
            InputError: there is none, all are damaged, or they are of another model.
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
                if self._is_own(newest):
                    newest.unlink(missing_ok=True)
                else:
                    newest.rename(newest.with_name(f"{newest.name}.other"))
            return progress
        raise problems[0]

    def last(self) -> Path:
        """Returns the newest checkpoint.

        Raises:
            InputError: there is none.
        """
        if paths := self.all():
            return paths[-1]
        raise InputError(f"{self.folder}: no checkpoint to continue from; delete the run's folder and start it anew")


def keep_best_weights(
    model: keras.Model,
    checkpoints: Checkpoints,
    progress: Progress,
    validate: Callable[[], dict[str, float]],
    *,
    metric: str,
    average_checkpoints: int,
) -> tuple[str, float]:
    """Loads the weights that are best on validation into the model, at the end of a training with a validation: the
    best checkpoint, or the mean of so many recent ones, if `validate` finds its metric, named without `val_`, better.
    Returns these weights in words, and the value of the metric."""
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

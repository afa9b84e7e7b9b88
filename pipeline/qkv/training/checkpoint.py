"""A checkpoint: the state of a training run as one NumPy archive, which holds data and no code."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import keras
import numpy as np

from ..errors import DAMAGE, InputError
from ..files.arrays import ArrayFile
from ..files.atomic import replaced_when_done
from .progress import Progress as Progress


def _variables(model: keras.Model, optimizer: keras.optimizers.Optimizer | None) -> dict[str, Any]:
    """Returns the variables of a checkpoint by name."""
    # model.variables includes the state of dropout's random numbers, which model.weights lacks.
    named = {_name("model", i, variable): variable for i, variable in enumerate(model.variables)}
    if optimizer is None:
        return named
    return named | {_name("optimizer", i, variable): variable for i, variable in enumerate(optimizer.variables)}


def _name(group: str, number: int, variable: Any) -> str:
    return f"{group}/{number:04d}/{_stable(variable.path)}"


def _stable(path: str) -> str:
    """Returns a variable's path without the numbers by which Keras tells apart layers of the same name in one
    process."""
    return re.sub(r"\b(seed_generator|adam|muon)_\d+\b", r"\1", path)


def save_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
    """Writes everything that a run needs to continue from here.

    The file is read back before it replaces another one.

    Raises:
        OSError: it cannot be written, or the disk returns other bytes.
    """
    arrays = {name: keras.ops.convert_to_numpy(variable) for name, variable in _variables(model, optimizer).items()}
    with replaced_when_done(path) as temporary:
        np.savez(temporary, progress=np.array(json.dumps(asdict(progress))), **arrays)
        with ZipFile(temporary) as archive:
            if archive.testzip() is not None:  # by the checksum of every array
                raise OSError(f"{path}: the disk returned other bytes than were written; check the disk")


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
        origin: of which run the checkpoint must be, see `text.provenance.origin_of`.

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
            if optimizer is not None and set(stored) != set(wanted):
                raise _other_model(path, set(stored) ^ set(wanted))
            values = {
                name: archive.read(stored[name], "f" if "float" in variable.dtype else "iub")
                for name, variable in wanted.items()
                if name in stored
            }
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{path}: the checkpoint is missing or damaged ({error}); use another one") from None
    if set(values) != set(wanted):
        raise _other_model(path, set(wanted) - set(values))
    for name, variable in wanted.items():
        if values[name].shape != tuple(variable.shape):
            raise InputError(
                f"{path}: the checkpoint is of another model: expected {variable.path} of shape "
                f"{tuple(variable.shape)}, found {values[name].shape}; the config or the tokenizer was changed after "
                "training: restore both"
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
    totals: list[Any] = [0.0] * len(model.trainable_variables)
    for path in paths:
        load_checkpoint(path, model, origin=origin)
        totals = [
            total + keras.ops.convert_to_numpy(variable).astype("float64")
            for total, variable in zip(totals, model.trainable_variables, strict=True)
        ]
    for total, variable in zip(totals, model.trainable_variables, strict=True):
        variable.assign((total / len(paths)).astype("float32"))


def _check_origin(path: Path, progress: Progress, origin: Mapping[str, str]) -> None:
    others = [name for name in origin if progress.origin.get(name, origin[name]) != origin[name]]
    if others:
        raise InputError(
            f"{path}: the checkpoint is of another run, with another {' and '.join(others)}; restore the "
            "checkpoint, or what was changed"
        )
    number = re.fullmatch(r"(?:update|passing)-([0-9]{8,})", path.stem)
    if number and int(number[1]) != progress.update:
        raise InputError(f"{path}: the checkpoint is of update {progress.update}, not of that of its name; rename it")


def _other_model(path: Path, names: set[str]) -> InputError:
    return InputError(
        f"{path}: the checkpoint is of another model: only one of the two has {min(names)}; "
        "the config was changed after training: restore it"
    )

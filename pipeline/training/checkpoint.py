"""A checkpoint: the state of a training run as one NumPy archive, which holds data and no code."""

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import keras
import numpy as np

from ..errors import DAMAGE, InputError
from ..files import replaced_when_done
from .optimizers import moving_averages

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """How far a run has come.

    Args:
        update: number of updates made.
        epoch: the current pass over the data, from 0.
        batch: number of batches of that pass that were trained on.
        seconds: time spent in training, without interruptions.
        best_metric: the best value so far of the metric by which the best checkpoint is chosen.
        best_update: the update that had it.
        validations_without_gain: number of validations since then.
        history: one row of logs for each validation.
        unread: loss, tokens and gradient norm of each update since the last logs.
        last_logs: the last logs of training.
        total_updates: the update at which training ends, once it is measured; None where it is not.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_metric: float | None = None
    best_update: int | None = None
    validations_without_gain: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    unread: list[list[float]] = field(default_factory=list)
    last_logs: dict[str, float] = field(default_factory=dict)
    total_updates: int | None = None

    @property
    def best_validation(self) -> dict[str, float]:
        """The row of the validation that was best so far."""
        return next(row for row in self.history if row["update"] == self.best_update)


def _variables(model: keras.Model, optimizer: keras.optimizers.Optimizer | None) -> dict[str, Any]:
    """Returns the variables of a checkpoint by name; `average/...` is the moving average of `model/...`."""
    # model.variables includes the state of dropout's random numbers, which model.weights lacks.
    named = {_name("model", i, variable): variable for i, variable in enumerate(model.variables)}
    if optimizer is None:
        return named
    averages = dict(zip(map(id, model.trainable_variables), moving_averages(optimizer), strict=False))
    averaged = [
        (_name("average", i, variable), averages[id(variable)])
        for i, variable in enumerate(model.variables)
        if id(variable) in averages
    ]
    named_averages = {id(average) for _, average in averaged}
    others = [
        (_name("optimizer", i, variable), variable)
        for i, variable in enumerate(optimizer.variables)
        if id(variable) not in named_averages
    ]
    return named | dict(averaged) | dict(others)


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


def load_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> Progress:
    """Loads a checkpoint into a model, and into its optimizer to continue training.

    Without an optimizer the model is loaded for use: with the moving average of the weights, if the checkpoint has one.

    Raises:
        InputError: the checkpoint is missing, damaged, or of a model with other settings. The model is not changed.
    """
    wanted = _variables(model, optimizer)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            progress = Progress(**json.loads(str(archive["progress"])))
            stored = {_stable(name): name for name in archive.files if name != "progress"}
            if optimizer is None:
                averages = {name: key for name, key in stored.items() if name.startswith("average/")}
                stored |= {f"model{name.removeprefix('average')}": key for name, key in averages.items()}
            if optimizer is not None and set(stored) != set(wanted):
                raise _other_model(path, set(stored) ^ set(wanted))
            values = {name: archive[stored[name]] for name in wanted if name in stored}
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
    for name, variable in wanted.items():
        variable.assign(values[name])
    return progress


def load_mean(paths: Sequence[Path], model: keras.Model) -> None:
    """Loads the mean of the weights of several checkpoints into a model (Vaswani et al. 2017, section 6.1).

    Raises:
        InputError: as for `load_checkpoint`.
    """
    totals: list[Any] = [0.0] * len(model.trainable_variables)
    for path in paths:
        load_checkpoint(path, model)
        totals = [
            total + keras.ops.convert_to_numpy(variable).astype("float64")
            for total, variable in zip(totals, model.trainable_variables, strict=True)
        ]
    for total, variable in zip(totals, model.trainable_variables, strict=True):
        variable.assign((total / len(paths)).astype("float32"))


def _other_model(path: Path, names: set[str]) -> InputError:
    return InputError(
        f"{path}: the checkpoint is of another model: only one of the two has {min(names)}; "
        "the config was changed after training: restore it"
    )

"""The state of a training run as one NumPy archive: data, never code, and there whole or not at all."""

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
        update: number of optimiser updates made.
        epoch: the pass over the data that it is in, from 0.
        batch: number of batches of that pass already trained on.
        seconds: time spent in training, without interruptions.
        best_metric: the best value so far of the metric that chooses the best checkpoint.
        best_update: the update that had it.
        validations_without_gain: how many validations ago that was.
        history: one row of logs for each validation.
        unread: loss, tokens and gradient norm of the updates that are in no line of logs yet.
        last_logs: the last line of logs of training.
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


def _variables(model: keras.Model, optimizer: keras.optimizers.Optimizer | None) -> dict[str, Any]:
    """What a checkpoint holds, by name; `average/...` is the moving average of `model/...`."""
    # model.variables has the state of dropout's random numbers too, which model.weights lacks.
    named = {_name("model", i, variable): variable for i, variable in enumerate(model.variables)}
    if optimizer is None:
        return named
    averages = dict(zip(map(id, model.trainable_variables), moving_averages(optimizer), strict=False))
    averaged = [
        (_name("average", i, variable), averages[id(variable)])
        for i, variable in enumerate(model.variables)
        if id(variable) in averages
    ]
    own = {id(average) for _, average in averaged}
    others = [
        (_name("optimizer", i, variable), variable)
        for i, variable in enumerate(optimizer.variables)
        if id(variable) not in own
    ]
    return named | dict(averaged) | dict(others)


def _name(group: str, number: int, variable: Any) -> str:
    return f"{group}/{number:04d}/{_stable(variable.path)}"


def _stable(path: str) -> str:
    """A variable's path without the numbers that Keras gives to what a process has made several of."""
    return re.sub(r"\b(seed_generator|adam|muon)_\d+\b", r"\1", path)


def save_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
    """Writes everything that going on from here needs, and reads it back before it counts."""
    arrays = {name: keras.ops.convert_to_numpy(variable) for name, variable in _variables(model, optimizer).items()}
    with replaced_when_done(path) as temporary:
        np.savez(temporary, progress=np.array(json.dumps(asdict(progress))), **arrays)
        with ZipFile(temporary) as archive:
            if archive.testzip() is not None:  # by the checksum of every array
                raise OSError(f"{path}: what was written is not what the disk gives back")


def load_checkpoint(path: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> Progress:
    """Puts a checkpoint's values into a model, and into an optimizer if one is given, to go on from there.

    Without one, the model gets the moving average of the weights where the checkpoint has it: what is to be used.

    Raises:
        InputError: it is missing, damaged, or of a model with other settings. The model is then as it was.
    """
    wanted = _variables(model, optimizer)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            progress = Progress(**json.loads(str(archive["progress"])))
            stored = {_stable(name): name for name in archive.files if name != "progress"}
            if optimizer is None:
                averages = {name: kept for name, kept in stored.items() if name.startswith("average/")}
                stored |= {f"model{name.removeprefix('average')}": kept for name, kept in averages.items()}
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
                f"{path}: the checkpoint is of another model: {variable.path} is {values[name].shape} there and "
                f"{tuple(variable.shape)} here; the config or the tokenizer was changed after training"
            )
    for name, variable in wanted.items():
        variable.assign(values[name])
    return progress


def load_mean(paths: Sequence[Path], model: keras.Model) -> None:
    """Puts the mean of several checkpoints' weights into a model (Vaswani et al. 2017, section 6.1).

    Raises:
        InputError: as `load_checkpoint`.
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
        "the config was changed after training"
    )

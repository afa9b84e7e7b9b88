"""The callbacks that configs can name, and how they are made."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from ...config import names
from ...errors import InputError
from ...files.paths import name_problem
from ...files.run_directory import RunDirectory


class EpochTable(keras.callbacks.CSVLogger):
    """Writes the metrics of the last validation at the end of each epoch, from the first validation on."""

    def on_epoch_end(self, epoch, logs=None):
        if any(name.startswith("val_") for name in logs or ()):
            super().on_epoch_end(epoch, {name: value for name, value in logs.items() if name != "epoch"})


CALLBACKS: dict[str, Callable[..., keras.callbacks.Callback]] = {
    "CSVLogger": EpochTable,
    "TerminateOnNaN": keras.callbacks.TerminateOnNaN,
}
"""Name -> what makes the callback: a class, or a function that returns one."""


def make_callback(name: str, arguments: Mapping[str, Any], folder: Path) -> keras.callbacks.Callback:
    """Makes one of `config.names.training.CALLBACKS`; files that its arguments name are in the folder of the run.

    Raises:
        InputError: it does not take these arguments.
    """
    row, make = names.training.CALLBACKS[name], CALLBACKS[name]
    given = {**dict(row.defaults), **arguments}
    try:
        inspect.signature(make).bind(**given)
        for key in row.files:
            if name_problem(str(given[key])):
                raise ValueError(f"{key}: expected the name of a file for the run's folder, found {given[key]!r}")
            if folder / str(given[key]) in RunDirectory(folder).inputs:
                raise ValueError(f"{key}: expected a name that no file of a run has, found {given[key]!r}")
            given[key] = str(folder / str(given[key]))
        made = make(**given)
    except (TypeError, ValueError) as error:
        raise InputError(f"training.callbacks: {name}: {error}; it takes {inspect.signature(make)}") from error
    if not isinstance(made, keras.callbacks.Callback):
        found = type(made).__name__
        raise InputError(f"training.callbacks: {name}: expected a keras.callbacks.Callback, found {found}")
    return made

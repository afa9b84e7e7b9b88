"""The callbacks that configs can name, how they are made, and checks of callbacks that come from Python."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from ...config import choices
from ...config.choices.translation import METRIC_INFO
from ...errors import InputError, did_you_mean
from ...files.paths import name_problem
from ...files.run_directory import RunDirectory


class EpochTable(keras.callbacks.Callback):
    """Writes the metrics of the last validation at the end of each epoch, from the first validation on.

    Args: as for `keras.callbacks.CSVLogger`, which the loop calls only after epochs that had a validation.
    """

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.table = keras.callbacks.CSVLogger(filename, separator, append)

    def on_train_begin(self, logs=None):
        self.table.on_train_begin(logs)

    def on_epoch_end(self, epoch, logs=None):
        if any(name.startswith("val_") for name in logs or ()):
            self.table.on_epoch_end(epoch, logs)

    def on_train_end(self, logs=None):
        self.table.on_train_end(logs)


CALLBACK_FACTORIES: dict[str, Callable[..., keras.callbacks.Callback]] = {
    "CSVLogger": EpochTable,
    "TerminateOnNaN": keras.callbacks.TerminateOnNaN,
}
"""Name -> what makes the callback: a class, or a function that returns one."""


def make_callback(name: str, arguments: Mapping[str, Any], folder: Path) -> keras.callbacks.Callback:
    """Makes one of `config.choices.training.CALLBACK_INFO`; files that its arguments name are in the folder of the run.

    Raises:
        InputError: it does not take these arguments.
    """
    row, make = choices.training.CALLBACK_INFO[name], CALLBACK_FACTORIES[name]
    given = {**dict(row.defaults), **arguments}
    try:
        inspect.signature(make).bind(**given)
        for key in row.files:
            if name_problem(str(given[key])):
                raise ValueError(f"{key}: expected the name of a file for the run's folder, found {given[key]!r:.60}")
            if folder / str(given[key]) in RunDirectory(folder).inputs:
                raise ValueError(f"{key}: expected a name that no file of a run has, found {given[key]!r:.60}")
            given[key] = str(folder / str(given[key]))
        made = make(**given)
    except (TypeError, ValueError) as error:
        raise InputError(f"training.callbacks: {name}: {error}; it takes {inspect.signature(make)}") from error
    if not isinstance(made, keras.callbacks.Callback):
        found = type(made).__name__
        raise InputError(f"training.callbacks: {name}: expected a keras.callbacks.Callback, found {found}")
    return made


def check_callbacks(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Lists callbacks from Python, after checking that the training loop can call each of them.

    `EarlyStopping` and `ModelCheckpoint` in mode `auto` are told whether their metric improves upwards or downwards,
    which Keras can only find out for metrics of a compiled model.

    Args:
        callbacks: what `fit` of Keras takes: a list of callbacks, a single one, or None.

    Raises:
        InputError: an item is not a callback, is one of `choices.training.UNSUITABLE_CALLBACKS`, or monitors or prints
            a value that training does not log.
    """
    callbacks = [] if callbacks is None else keras.tree.flatten(callbacks)
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            hint = "; a class must be called first" if isinstance(callback, type) else ""
            raise InputError(
                f"callbacks: expected a list of keras.callbacks.Callback objects, found {callback!r:.60} in it{hint}"
            )
        for name, instead in choices.training.UNSUITABLE_CALLBACKS.items():
            if isinstance(callback, getattr(keras.callbacks, name, ())):
                raise InputError(f"callbacks: keras.callbacks.{name} cannot be used in qkv.train: {instead}")
        if isinstance(callback, keras.callbacks.EarlyStopping | keras.callbacks.ModelCheckpoint):
            _check_monitor(callback)
        if isinstance(callback, keras.callbacks.ModelCheckpoint):
            _check_file_name(callback)
    return callbacks


def _check_monitor(callback: Any) -> None:
    """Checks the metric that a callback monitors, and sets its direction."""
    logged = ["loss", *(f"val_{name}" for name in METRIC_INFO)]
    if callback.monitor not in logged:
        hint = did_you_mean(str(callback.monitor), logged)
        raise InputError(
            f"callbacks: {type(callback).__name__}: monitor: expected one of {', '.join(logged)}, found "
            f"{callback.monitor!r:.60}{hint}"
        )
    if callback.mode == "auto":
        callback.mode = "min" if METRIC_INFO[callback.monitor.removeprefix("val_")].lower_is_better else "max"


def _check_file_name(callback: keras.callbacks.ModelCheckpoint) -> None:
    """Checks the fields of a checkpoint's file name, such as `{val_loss:.2f}`, which are filled in while it trains."""
    if callback.save_freq == "epoch":
        known = {"epoch": 1, **dict.fromkeys(["update", "loss", *(f"val_{name}" for name in METRIC_INFO)], 1.0)}
    else:
        known = {"epoch": 1, "batch": 1}  # most updates have no logs
    try:
        callback.filepath.format(**known)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        expected = ", ".join(f"{{{name}}}" for name in known)
        raise InputError(
            f"callbacks: ModelCheckpoint: filepath: expected fields among {expected}, found {callback.filepath!r:.60}: "
            f"{type(error).__name__}: {error!s:.60}"
        ) from error

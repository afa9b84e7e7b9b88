"""The callbacks of a training: those that a config names, those that Python passes, and those of every run.

The modules, in reading order:

- `progress_line`: the progress on standard output, and `history.csv`
- `probes`: translations and attention of the probe sentences
- `tensorboard`: the event files of TensorBoard
- `build`: the callbacks of every run, built from its config
"""

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
    """The callback `CSVLogger` of a config, which writes the metrics of the last validation at the end of each epoch.

    It writes no row before the first validation. After that it also writes a row for epochs without a validation, for
    which the loop does not call Keras' own `CSVLogger`.

    Args:
        filename, separator, append: see `keras.callbacks.CSVLogger`.
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
"""The class of each callback in `config.choices.training.CALLBACK_INFO`, or a function that returns the callback."""


def make_callback(name: str, arguments: Mapping[str, Any], folder: Path) -> keras.callbacks.Callback:
    """Makes a callback that a config names.

    Args:
        name: a key of `CALLBACK_FACTORIES`.
        arguments: its arguments. They replace the defaults of `config.choices.training.CALLBACK_INFO`. The name of a
            file becomes a path in `folder`.
        folder: the folder of the run.

    Raises:
        InputError: the callback does not take these arguments; an argument is not a valid file name, or is the name of
            a file that a run needs; or the factory of a plugin returns something other than a Keras callback.
    """
    row = choices.training.CALLBACK_INFO[name]
    make = CALLBACK_FACTORIES[name]
    values = {**dict(row.defaults), **arguments}
    try:
        inspect.signature(make).bind(**values)
        for key in row.files:
            value = values[key]
            if name_problem(str(value)):
                raise ValueError(f"{key}: expected the name of a file for the run's folder, found {value!r:.60}")
            if folder / str(value) in RunDirectory(folder).inputs:
                raise ValueError(f"{key}: expected a name that no file of a run has, found {value!r:.60}")
            values[key] = str(folder / str(value))
        callback = make(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"training.callbacks: {name}: {error}; it takes {inspect.signature(make)}") from error
    if not isinstance(callback, keras.callbacks.Callback):
        raise InputError(
            f"training.callbacks: {name}: expected a keras.callbacks.Callback, found {type(callback).__name__}"
        )
    return callback


def check_callbacks(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Checks that the training loop can call the callbacks that Python passes.

    `EarlyStopping` and `ModelCheckpoint` in mode `auto` get the mode `min` or `max` of their metric. Keras can find it
    out for the metrics of a compiled model only.

    Args:
        callbacks: a list of callbacks, a single callback, or None, as for `fit` of Keras.

    Returns:
        A list of the callbacks.

    Raises:
        InputError: an item is not a callback, or is listed in `config.choices.training.UNSUITABLE_CALLBACKS`; or it
            monitors, or has in its file name, a value that training does not log.
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
    """Raises an `InputError` if training does not log the value that the callback monitors.

    Sets the mode `auto` of the callback to `min` or `max`, as its value is better if lower or higher.
    """
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
    """Raises an `InputError` if the callback gets no logs for a field of its file name, such as `{val_loss:.2f}`."""
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

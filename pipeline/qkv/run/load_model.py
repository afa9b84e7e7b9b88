"""Loads a saved Keras model. Importing this module registers the classes and functions of qkv that its file names."""

from pathlib import Path

import keras

from .. import losses as losses
from ..decoding import generate as generate  # the searches of `model.generate`
from ..errors import InputError
from ..files.paths import as_path
from ..files.run_directory import find_run
from ..metrics import token_metrics as token_metrics
from ..model.decoder_only import DecoderOnly as DecoderOnly
from ..model.recurrent import Recurrent as Recurrent
from ..model.transformer import Transformer as Transformer
from ..training import schedule as schedule


def load_model(path: str | Path) -> keras.Model:
    """Loads a Keras model that `model.save` or a training has written.

    The result can be called, fitted and used to predict.

    Args:
        path: a `.keras` file, or the folder of a run, which has the file `model.keras`.

    Raises:
        InputError: there is no such file.
        ValueError, OSError: the file is damaged.
        TypeError: the model has a class that is not registered.

    Example:
        >>> load_model("runs/demo").summary()  # doctest: +SKIP
    """
    path = find_run(as_path(path, "path", "a .keras file, or the folder of a run"))
    file = path / "model.keras" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{file}: no such file; expected a .keras file, or the folder of a trained run")
    return keras.saving.load_model(file)

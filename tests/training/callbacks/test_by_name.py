"""Callbacks that a config names: made with plain arguments, told where they are, refused where a setting does it."""

import inspect

import keras
import pandas as pd
import pytest

from pipeline.config import names
from pipeline.errors import InputError
from pipeline.training.callbacks.by_name import CALLBACKS, make_callback
from tests.config_files import MINIMAL, parsed, problem


def test_every_callback_of_keras_is_either_listed_or_refused():
    classes = {name for name, found in vars(keras.callbacks).items() if inspect.isclass(found)}
    assert classes - {"Callback", "CallbackList"} == set(names.CALLBACKS) | set(names.REFUSED_CALLBACKS)
    assert set(CALLBACKS) == set(names.CALLBACKS)


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("[{name: EarlyStopping}]", "keras.callbacks.EarlyStopping cannot be used here: use training.early_stopping"),
        ("[{name: keras.callbacks.ModelCheckpoint}]", "use training.keep_checkpoints"),
        ("[{name: os.system}]", "training.callbacks.0.name: expected one of CSVLogger, TerminateOnNaN, found 'os.sys"),
        ("[CSVLogger]", "training.callbacks.0: expected a section of keys and values, found 'CSVLogger'"),
        ("[{name: CSVLogger, arguments: {filename: {a: 1}}}]", "filename: expected text, a number, true, false, null"),
        ("[{name: CSVLoger}]", "did you mean CSVLogger?"),
    ],
    ids=["stopping", "checkpoints", "code", "no section", "no plain argument", "misspelt"],
)
def test_what_cannot_be_used_is_refused_with_what_to_use(config_file, given, told):
    assert told in problem(config_file, "--training.callbacks", given)


def test_a_callback_of_keras_may_have_its_module_before_it(config_file):
    given = "[{name: keras.callbacks.CSVLogger, arguments: {filename: epochs.csv}}]"
    (callback,) = parsed(config_file, "--training.callbacks", given).training.callbacks
    assert (callback.name, callback.arguments) == ("CSVLogger", {"filename": "epochs.csv"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing a required argument: 'filename'; it takes"),
        ({"filename": "a.csv", "colour": 1}, "got an unexpected keyword argument 'colour'"),
        (
            {"filename": "../../a.csv"},
            r"filename: expected the name of a file for the run's folder, found '\.\./\.\./a\.csv'; it takes",
        ),
        ({"filename": "/etc/passwd"}, "filename: expected the name of a file"),
    ],
    ids=["missing", "unknown", "above", "elsewhere"],
)
def test_arguments_that_a_callback_does_not_take_are_refused(tmp_path, arguments, told):
    with pytest.raises(InputError, match=r"training\.callbacks: CSVLogger: " + told):
        make_callback("CSVLogger", arguments, tmp_path)


def test_the_table_of_epochs_is_in_the_folder_of_the_run_and_goes_on_when_a_run_is_resumed(tmp_path):
    for epochs in ([{}, {"loss": 3.0}, {"epoch": 1, "loss": 2.0, "val_loss": 2.5}], [{"loss": 1.0, "val_loss": 2.0}]):
        table = make_callback("CSVLogger", {"filename": "epochs.csv"}, tmp_path)
        table.on_train_begin()
        for epoch, logs in enumerate(epochs):
            table.on_epoch_end(epoch, logs)
        table.on_train_end()
    found = pd.read_csv(tmp_path / "epochs.csv")
    assert found.to_dict("list") == {"epoch": [2, 0], "loss": [2.0, 1.0], "val_loss": [2.5, 2.0]}


def test_what_a_plugin_returns_must_be_a_callback(tmp_path, monkeypatch):
    monkeypatch.setitem(names.CALLBACKS, "odd", names.Callback("odd"))
    monkeypatch.setitem(CALLBACKS, "odd", lambda: 3)
    with pytest.raises(InputError, match=r"odd: expected a keras\.callbacks\.Callback, found int"):
        make_callback("odd", {}, tmp_path)

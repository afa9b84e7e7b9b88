"""Callbacks that a config names: made with plain arguments, told where they are, refused where a setting does it."""

import importlib.util
import inspect
import sys
from types import SimpleNamespace

import keras
import pandas as pd
import pytest

from qkv.config import names
from qkv.errors import InputError
from qkv.run import train
from qkv.training.callbacks import CALLBACKS, make_callback
from tests.support.documents import PLUGINS, recipe
from tests.support.tiny_runs import parsed, problem


def test_every_callback_of_keras_is_either_listed_or_refused():
    classes = {name for name, found in vars(keras.callbacks).items() if inspect.isclass(found)}
    listed = set(names.training.CALLBACKS) | set(names.training.REFUSED_CALLBACKS)
    assert classes - {"Callback", "CallbackList"} == listed
    assert set(CALLBACKS) == set(names.training.CALLBACKS)


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
        ({"filename": "config.yaml"}, "filename: expected a name that no file of a run has, found 'config.yaml'"),
        ({"filename": "checkpoints"}, "filename: expected a name that no file of a run has, found 'checkpoints'"),
    ],
    ids=["missing", "unknown", "above", "elsewhere", "a file of the run", "a folder of the run"],
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
    monkeypatch.setitem(names.training.CALLBACKS, "odd", names.training.Callback("odd"))
    monkeypatch.setitem(CALLBACKS, "odd", lambda: 3)
    with pytest.raises(InputError, match=r"odd: expected a keras\.callbacks\.Callback, found int"):
        make_callback("odd", {}, tmp_path)


class StubbedMLflow:
    """Keeps what it is called with, as MLflow would: a run is a dict of settings and of metrics by name and step."""

    def __init__(self):
        self.runs = []

    def start_run(self, run_name):
        assert not self.runs or self.runs[-1]["ended"]
        self.runs.append({"name": run_name, "params": {}, "metrics": {}, "artifacts": [], "ended": False})

    def log_params(self, params):
        self.runs[-1]["params"] |= {key: str(value) for key, value in params.items()}

    def log_metrics(self, metrics, step):
        self.runs[-1]["metrics"] |= {(key, step): float(value) for key, value in metrics.items()}

    def log_artifact(self, path):
        self.runs[-1]["artifacts"].append(path)

    def end_run(self):
        self.runs[-1]["ended"] = True

    def module(self):
        names_of = ("start_run", "log_params", "log_metrics", "log_artifact", "end_run")
        idle = {"set_tracking_uri": lambda uri: None, "set_experiment": lambda name: None}
        return SimpleNamespace(**{name: getattr(self, name) for name in names_of}, **idle)


@pytest.fixture
def registered():
    """Registers the example of the page, and takes it away again."""
    before = dict(names.training.CALLBACKS), dict(CALLBACKS)
    yield lambda: exec(recipe("register_callback", PLUGINS), {})
    for table, rows in zip((names.training.CALLBACKS, CALLBACKS), before, strict=True):
        table.clear()
        table.update(rows)


def train_for_mlflow(make_config, uri):
    callbacks = [{"name": "mlflow", "arguments": {"uri": uri}}]
    config = make_config("shown", training__callbacks=callbacks, training__max_updates=3, inspection__probes=[])
    assert train(config) == 0
    return config


@pytest.mark.minutes
def test_the_example_of_the_page_shows_a_run_in_mlflow(make_config, registered, monkeypatch):
    stub = StubbedMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", stub.module())
    registered()
    config = train_for_mlflow(make_config, "unused")
    (run,) = stub.runs
    assert run["name"] == "shown" and run["ended"]
    assert run["params"]["model.d_model"] == "8" and run["params"]["training.optimizer"] == "adam"
    assert {step for name, step in run["metrics"] if name == "loss"} == {1, 2, 3}
    assert {step for name, step in run["metrics"] if name == "val_bleu"} == {3}
    assert run["artifacts"] == [str(config.run.directory / "shown" / "config.yaml")]


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_itself_keeps_what_the_example_logs(make_config, registered, tmp_path):
    import mlflow

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    registered()
    train_for_mlflow(make_config, uri)
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("qkv").experiment_id])
    assert run.info.run_name == "shown" and run.info.status == "FINISHED"
    assert run.data.params["model.d_model"] == "8"
    assert [one.step for one in client.get_metric_history(run.info.run_id, "loss")][:3] == [1, 2, 3]
    assert "val_bleu" in run.data.metrics

"""Callbacks that a config names: made with plain arguments, told where they are, refused where a setting does it. Those
of Keras, from Python: each works in the training loop and in `fit`, or is refused, as the table of the page says."""

import importlib.util
import inspect
import json
import re
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pandas as pd
import pytest

from qkv.config import choices
from qkv.errors import InputError
from qkv.losses import TokenCrossEntropy
from qkv.metrics import Perplexity, TokenAccuracy
from qkv.run import train
from qkv.training.callbacks import CALLBACK_FACTORIES, check_callbacks, make_callback
from qkv.training.loop import Session
from qkv.training.progress import Progress
from tests.support.documents import KERAS, PLUGINS, recipe
from tests.support.tiny_models import SOURCE, TARGET, make_transformer
from tests.support.tiny_runs import parsed, problem
from tests.support.training import FakeRun

CLASSES = {name for name, found in vars(keras.callbacks).items() if inspect.isclass(found)}


def test_every_callback_of_keras_is_either_listed_or_refused():
    listed = set(choices.training.CALLBACK_INFO) | set(choices.training.REFUSED_CALLBACKS)
    assert CLASSES - {"Callback"} == listed
    assert set(CALLBACK_FACTORIES) == set(choices.training.CALLBACK_INFO)


TABLE = KERAS.read_text(encoding="utf-8").split("| callback | ")[1].split("\n\n")[0]
ROWS = {name: (fit, train) for name, fit, train in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", TABLE, re.MULTILINE)}
REFUSED = {name for name, (_, train) in ROWS.items() if train.startswith("refused: ")}


def test_the_table_of_the_page_has_every_callback_of_keras():
    assert set(ROWS) == CLASSES
    told = {name: ROWS[name][1].removeprefix("refused: ").replace("`", "") for name in REFUSED}
    assert told == choices.training.UNSUITABLE_CALLBACKS


class Posted:
    """Stands for the package `requests`."""

    exceptions = SimpleNamespace(RequestException=OSError)

    def __init__(self):
        self.sent = []

    def post(self, url, data, headers):
        self.sent.append(json.loads(data["data"]))


class Mine(keras.callbacks.Callback):
    """Fills in a file name as callbacks of Keras do, which the logs must not have an `epoch` for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def on_epoch_end(self, epoch, logs=None):
        self.names.append("{epoch}: {val_loss}".format(epoch=epoch, **logs))


def make_every_callback(folder):
    """A callback of each class, by name, which watches the accuracy, and the items that a `LambdaCallback` appends."""
    heard = []
    made = {
        "BackupAndRestore": keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False),
        "Callback": Mine(),
        "CallbackList": keras.callbacks.CallbackList([keras.callbacks.History()]),
        "CSVLogger": keras.callbacks.CSVLogger(str(folder / "epochs.csv")),
        "EarlyStopping": keras.callbacks.EarlyStopping("val_token_accuracy", patience=1),
        "History": keras.callbacks.History(),
        "LambdaCallback": keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: heard.append(epoch)),
        "LearningRateScheduler": keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2),
        "ModelCheckpoint": keras.callbacks.ModelCheckpoint(
            str(folder / "{epoch}.keras"), monitor="val_token_accuracy", save_best_only=True
        ),
        "ProgbarLogger": keras.callbacks.ProgbarLogger(),
        "ReduceLROnPlateau": keras.callbacks.ReduceLROnPlateau("val_perplexity", patience=1, min_delta=1e9),
        "RemoteMonitor": keras.callbacks.RemoteMonitor(),
        "SwapEMAWeights": keras.callbacks.SwapEMAWeights(),
        "TensorBoard": keras.callbacks.TensorBoard(str(folder / "board")),
        "TerminateOnNaN": keras.callbacks.TerminateOnNaN(),
    }
    assert set(made) == CLASSES - {"OrbaxCheckpoint"}  # needs a package
    return made, heard


@pytest.mark.parametrize("name", sorted(REFUSED - {"OrbaxCheckpoint"}))
def test_a_callback_that_the_loop_cannot_call_is_refused_by_name(tmp_path, name):
    callback = make_every_callback(tmp_path)[0][name]
    told = (
        f"callbacks: keras.callbacks.{name} cannot be used in qkv.train: {choices.training.UNSUITABLE_CALLBACKS[name]}"
    )
    with pytest.raises(InputError, match=re.escape(told)):
        check_callbacks([Mine(), callback])
    below = type(name, (type(callback),), {"__init__": lambda self: None})()
    with pytest.raises(InputError, match=re.escape(told)):
        check_callbacks(below)


METRICS = [0.4, 0.6, 0.6, 0.5, 0.5]  # accuracies: the second is the best


@pytest.fixture(scope="module")
def looped(tmp_path_factory):
    """What every callback that the loop can call has made of epochs of three updates, the second without a
    validation."""
    folder = tmp_path_factory.mktemp("looped")
    made, heard = make_every_callback(folder)
    callbacks = {name: made[name] for name in ROWS if name not in REFUSED}
    posted = Posted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[keras.callbacks.RemoteMonitor.__module__], "requests", posted)
        patch.setattr(FakeRun, "_validate", lambda run: {"val_loss": 1.0, "val_token_accuracy": run.metrics.pop(0)})
        run, progress = FakeRun(METRICS, "token_accuracy", validate_every=6), Progress()
        training = run.training(max_updates=17)
        patch.setattr(Session, "_is_validation_due", lambda session: progress.update in (2, 8, 12, 15))
        reason = training.run(progress, check_callbacks(list(callbacks.values())))
    return SimpleNamespace(folder=folder, heard=heard, posted=posted, reason=reason, progress=progress, **callbacks)


def saved_count(looped):
    model = keras.saving.load_model(looped.folder / "3.keras", compile=False)
    return float(model.trainable_variables[0][0, 0])  # how many updates it has


# Epochs of three updates: the first has a validation, the second none, the third and the fourth have one each.
IN_THE_LOOP = {
    "Callback": lambda looped: looped.Callback.names == [f"{epoch}: 1.0" for epoch in range(4)],
    "CSVLogger": lambda looped: table_of(looped) == ([0, 2, 3], METRICS[:3]),
    "EarlyStopping": lambda looped: (looped.reason, looped.progress.update) == ("a callback stopped it", 12),
    "History": lambda looped: (
        (looped.History.epoch, looped.History.history["val_token_accuracy"]) == ([0, 2, 3], METRICS[:3])
    ),
    "LambdaCallback": lambda looped: looped.heard == [0, 1, 2, 3],
    "ModelCheckpoint": lambda looped: files_of(looped) == ["1.keras", "3.keras"] and saved_count(looped) == 9,
    "RemoteMonitor": lambda looped: [sent["epoch"] for sent in looped.posted.sent] == [0, 2, 3],
    "TerminateOnNaN": lambda looped: looped.TerminateOnNaN.model is looped.Callback.model,
}


def table_of(folded):
    table = pd.read_csv(folded.folder / "epochs.csv")
    return table["epoch"].tolist(), table["val_token_accuracy"].tolist()


def files_of(folded):
    return sorted(path.name for path in folded.folder.glob("*.keras"))


@pytest.mark.parametrize("name", sorted(set(ROWS) - REFUSED))
def test_a_callback_works_in_the_loop(looped, name):
    assert IN_THE_LOOP[name](looped)


def fit_with_every_callback(model, inputs, folder):
    made, heard = make_every_callback(folder)
    optimizer = keras.optimizers.Adam(0.5, use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, TokenCrossEntropy(), metrics=[TokenAccuracy(), Perplexity()], run_eagerly=True)
    posted = Posted()
    targets = np.roll(TARGET, -1, axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[keras.callbacks.RemoteMonitor.__module__], "requests", posted)
        model.fit(inputs, targets, epochs=9, verbose=0, validation_data=(inputs, targets), callbacks=[*made.values()])
    accuracies = made["History"].history["val_token_accuracy"]
    assert 1 < len(accuracies) < 9  # it has stopped early
    return SimpleNamespace(folder=folder, heard=heard, posted=posted, model=model, accuracies=accuracies, **made)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """What every callback has made of a model that is no translator, with our loss and metrics."""
    ids = keras.Input((None,), dtype="int32")
    model = keras.Model(ids, keras.layers.Dense(17)(keras.layers.Embedding(17, 4)(ids)))
    return fit_with_every_callback(model, TARGET, tmp_path_factory.mktemp("fitted"))


def epochs_of(fitted):
    return list(range(len(fitted.accuracies)))


def rising_epochs(fitted):
    """The epochs whose accuracy is higher than any before."""
    values = fitted.accuracies
    return [epoch for epoch in epochs_of(fitted) if all(values[epoch] > before for before in values[:epoch])]


IN_FIT = {
    "BackupAndRestore": lambda fitted: (fitted.folder / "backup" / "latest.weights.h5").is_file(),
    "Callback": lambda fitted: len(fitted.Callback.names) == len(fitted.accuracies),
    "CallbackList": lambda fitted: fitted.CallbackList.callbacks[0].epoch == epochs_of(fitted),
    "CSVLogger": lambda fitted: table_of(fitted)[0] == epochs_of(fitted),
    "EarlyStopping": lambda fitted: (
        (fitted.EarlyStopping.best_epoch, fitted.EarlyStopping.stopped_epoch)
        == (rising_epochs(fitted)[-1], epochs_of(fitted)[-1])
    ),
    "History": lambda fitted: fitted.History.epoch == epochs_of(fitted),
    "LambdaCallback": lambda fitted: fitted.heard == epochs_of(fitted),
    "LearningRateScheduler": lambda fitted: 0 < fitted.model.optimizer.learning_rate < 0.5,
    "ModelCheckpoint": lambda fitted: files_of(fitted) == [f"{epoch + 1}.keras" for epoch in rising_epochs(fitted)],
    "ProgbarLogger": lambda fitted: fitted.ProgbarLogger.seen == 1,
    "ReduceLROnPlateau": lambda fitted: (
        fitted.ReduceLROnPlateau.monitor_op is keras.ops.less
        and fitted.model.optimizer.learning_rate
        < 0.2 * 0.5 ** (len(fitted.accuracies) + 1)  # the scheduler's is halved
    ),
    "RemoteMonitor": lambda fitted: [sent["epoch"] for sent in fitted.posted.sent] == epochs_of(fitted),
    "SwapEMAWeights": lambda fitted: fitted.SwapEMAWeights.model is fitted.model,
    "TensorBoard": lambda fitted: len(list((fitted.folder / "board").rglob("events.*"))) == 2,
    "TerminateOnNaN": lambda fitted: fitted.TerminateOnNaN.model is fitted.model,
}


@pytest.mark.parametrize("name", sorted(name for name, (fit, _) in ROWS.items() if not fit.startswith("needs")))
def test_a_callback_works_in_fit(fitted, name):
    assert IN_FIT[name](fitted)


@pytest.mark.minutes
def test_every_callback_works_in_fit_of_a_transformer(tmp_path):
    fitted = fit_with_every_callback(make_transformer(), (SOURCE, TARGET), tmp_path)
    assert [name for name, holds in IN_FIT.items() if not holds(fitted)] == []
    keras.saving.load_model(tmp_path / files_of(fitted)[-1])


def test_callbacks_are_given_as_to_fit():
    one, other = Mine(), Mine()
    assert check_callbacks(None) == check_callbacks(()) == []
    assert check_callbacks(one) == [one]
    assert check_callbacks([one, (other,)]) == [one, other]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (object, "expected a list of keras.callbacks.Callback objects, found <object object at "),
        (lambda: "EarlyStopping", "found 'EarlyStopping' in it"),
        (lambda: Mine, "a class must be called first"),
        (lambda: (Mine() for _ in range(2)), "found <generator object"),
        (
            lambda: keras.callbacks.EarlyStopping("val_acuracy"),
            "EarlyStopping: monitor: expected one of loss, val_loss, val_perplexity, val_token_accuracy, val_bleu, "
            "found 'val_acuracy'; did you mean val_token_accuracy?",
        ),
        (
            lambda: keras.callbacks.ModelCheckpoint("a.keras", monitor="val_accuracy", mode="max"),
            "found 'val_accuracy'",
        ),
        (
            lambda: keras.callbacks.ModelCheckpoint("{val_acc}.keras"),
            "filepath: expected fields among {epoch}, {update}, {loss}, {val_loss}, {val_perplexity}, "
            "{val_token_accuracy}, {val_bleu}, found '{val_acc}.keras': KeyError: 'val_acc'",
        ),
        (lambda: keras.callbacks.ModelCheckpoint("{val_loss}.keras", save_freq=3), "among {epoch}, {batch}, found"),
        (lambda: keras.callbacks.ModelCheckpoint("{val_loss.keras"), "found '{val_loss.keras': ValueError: "),
        (lambda: keras.callbacks.ModelCheckpoint("{}.keras"), "found '{}.keras': IndexError: "),
        (lambda: keras.callbacks.ModelCheckpoint("{val_loss:d}.keras"), "ValueError: Unknown format code 'd'"),
        (lambda: keras.callbacks.ModelCheckpoint("{epoch:{width}}.keras"), "KeyError: 'width'"),
    ],
    ids=[
        "object",
        "text",
        "class",
        "generator",
        "monitor",
        "monitor in mode max",
        "field",
        "batch",
        "brace",
        "empty",
        "code",
        "below",
    ],
)
def test_what_would_end_a_training_later_is_refused_at_once(made, told):
    with pytest.raises(InputError, match=re.escape(told)):
        check_callbacks([made()])


@pytest.mark.parametrize(
    ("monitor", "mode", "direction"),
    [
        ("loss", "auto", "min"),
        ("val_loss", "auto", "min"),
        ("val_perplexity", "auto", "min"),
        ("val_bleu", "auto", "max"),
        ("val_bleu", "min", "min"),
    ],
)
def test_a_metric_has_the_direction_of_its_row_unless_the_callback_says_it(monitor, mode, direction):
    (callback,) = check_callbacks([keras.callbacks.EarlyStopping(monitor, mode=mode)])
    assert callback.mode == direction


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
    for epochs in ([{}, {"loss": 3.0}, {"loss": 2.0, "val_loss": 2.5}], [{"loss": 1.0, "val_loss": 2.0}]):
        table = make_callback("CSVLogger", {"filename": "epochs.csv"}, tmp_path)
        table.on_train_begin()
        for epoch, logs in enumerate(epochs):
            table.on_epoch_end(epoch, logs)
        table.on_train_end()
    found = pd.read_csv(tmp_path / "epochs.csv")
    assert found.to_dict("list") == {"epoch": [2, 0], "loss": [2.0, 1.0], "val_loss": [2.5, 2.0]}


def test_what_a_plugin_returns_must_be_a_callback(tmp_path, monkeypatch):
    monkeypatch.setitem(choices.training.CALLBACK_INFO, "odd", choices.training.CallbackInfo("odd"))
    monkeypatch.setitem(CALLBACK_FACTORIES, "odd", lambda: 3)
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
    before = dict(choices.training.CALLBACK_INFO), dict(CALLBACK_FACTORIES)
    yield lambda: exec(recipe("register_callback", PLUGINS), {})
    for table, rows in zip((choices.training.CALLBACK_INFO, CALLBACK_FACTORIES), before, strict=True):
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

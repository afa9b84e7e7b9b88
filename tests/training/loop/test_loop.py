"""The training loop: the order of batches and events, validations, and which checkpoint is best."""

import signal

import keras
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.training.accumulation import Accumulation
from qkv.training.checkpoints import load_checkpoint
from qkv.training.progress import Progress
from qkv.training.step import TrainStepMetrics
from tests.support.training import FakeBatches, FakeRun


class Events(keras.callbacks.Callback):
    """Writes down what it is told."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def on_train_begin(self, logs=None):
        self.heard.append("train begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.heard.append(f"epoch {epoch} begin")

    def on_train_batch_end(self, batch, logs=None):
        self.heard.append(f"batch {batch}" + (f": update {logs['update']:.0f}" if logs else ""))

    def on_test_end(self, logs=None):
        self.heard.append(f"validation: update {logs['update']:.0f}")

    def on_epoch_end(self, epoch, logs=None):
        self.heard.append(f"epoch {epoch} end")

    def on_train_end(self, logs=None):
        self.heard.append("train end")


class Interrupt(keras.callbacks.Callback):
    """Sends a signal, as often as told, when a batch begins."""

    def __init__(self, batch, number=signal.SIGINT, times=1):
        super().__init__()
        self.batch, self.number, self.times = batch, number, times

    def on_train_batch_begin(self, batch, logs=None):
        for _ in range(self.times if batch == self.batch else 0):
            signal.raise_signal(self.number)


@pytest.mark.parametrize(
    ("limits", "reason", "updates"),
    [
        ({"max_updates": 5}, "5 updates", 5),
        ({"max_epochs": 2}, "2 epochs", 6),
        ({"max_updates": 100, "max_epochs": 1}, "1 epochs", 3),
        ({"max_minutes": 1e-9}, "1e-09 minutes", 0),
        ({"max_minutes": 60, "max_updates": 4}, "4 updates", 4),
    ],
)
def test_training_ends_at_the_first_limit_that_is_reached(limits, reason, updates):
    run, progress = FakeRun(), Progress()
    assert run.training(**limits).run(progress) == reason
    assert progress.update == updates
    assert len(run.seen) == updates


def test_the_limit_of_minutes_counts_the_time_before_an_interruption():
    progress = Progress(seconds=61)
    assert FakeRun().training(max_minutes=1).run(progress) == "1 minutes"
    assert progress.update == 0


@pytest.fixture
def groups(monkeypatch):
    """The batches of each update."""
    groups = []

    def make(accumulation, batches, progress):
        metrics = [accumulation.step(batch) for batch in batches]
        groups.append(accumulation.step.run.seen[-len(batches) :])
        return metrics[-1]

    monkeypatch.setattr(Accumulation, "make", make)
    monkeypatch.setattr(FakeBatches, "accumulated", 2)
    return groups


def test_batches_are_accumulated_within_their_epoch(groups):
    run, progress = FakeRun(), Progress()
    run.training(max_epochs=2).run(progress)
    assert groups == [[(epoch, 0), (epoch, 1)] if part == 0 else [(epoch, 2)] for epoch in (0, 1) for part in (0, 1)]
    assert (progress.update, progress.epoch, progress.batch) == (4, 2, 0)


def test_a_run_of_accumulated_batches_stops_and_continues_between_updates(groups):
    run, progress = FakeRun(), Progress()
    run.training(max_updates=3).run(progress)
    assert (progress.update, progress.epoch, progress.batch) == (3, 1, 2)
    run.training(max_updates=4).run(progress)
    assert groups[3:] == [[(1, 2)]]


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6, 8])
def test_every_batch_is_trained_on_once_and_in_order_whenever_a_run_is_resumed(first):
    run, progress = FakeRun(), Progress()
    run.training(max_updates=first).run(progress)
    run.training(max_updates=8).run(progress)
    assert run.seen == [(epoch, batch) for epoch in range(3) for batch in range(3)][:8]
    assert (progress.epoch, progress.batch) == (2, 2)


def test_a_finished_run_is_not_changed():
    run, progress = FakeRun(), Progress()
    run.training(max_updates=4).run(progress)
    rows = list(progress.history)
    assert run.training(max_updates=4).run(progress) == "4 updates"
    assert len(run.seen) == 4
    assert progress.history == rows


def test_callbacks_get_events_in_order_and_logs_every_log_every_updates():
    events = Events()
    FakeRun(log_every=2, validate_every=3).training(max_updates=5).run(Progress(), [events])
    assert events.heard == [
        "train begin",
        "epoch 0 begin",
        "batch 0",
        "batch 1: update 2",
        "batch 2",
        "validation: update 3",
        "epoch 0 end",
        "epoch 1 begin",
        "batch 3: update 4",
        "batch 4",
        "validation: update 5",
        "epoch 1 end",
        "train end",
    ]


class Logs(keras.callbacks.Callback):
    """Keeps the logs of batches and epochs."""

    def __init__(self):
        super().__init__()
        self.of_batches, self.of_epochs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.of_batches.append(logs)

    def on_epoch_end(self, epoch, logs=None):
        self.of_epochs.append((epoch, logs))


def test_logs_have_the_epoch_in_validations_alone_since_keras_gives_it_beside_them():
    logs, progress = Logs(), Progress()
    FakeRun(validate_every=3).training(max_epochs=2).run(progress, [logs])
    assert all("update" in row and "epoch" not in row for row in logs.of_batches)
    assert [(epoch, row["update"]) for epoch, row in logs.of_epochs] == [(0, 3), (1, 6)]
    assert all("epoch" not in row for _, row in logs.of_epochs)
    assert [row["epoch"] for row in progress.history] == [1, 2]


@pytest.mark.parametrize("limits", [{"max_epochs": 2}, {"max_updates": 4}], ids=["complete", "within"])
def test_the_last_epoch_ends_after_the_last_validation(limits):
    events = Events()
    FakeRun(validate_every=99).training(**limits).run(Progress(), [events])
    assert events.heard[-3:] == [events.heard[-3], "epoch 1 end", "train end"]
    assert events.heard[-3].startswith("validation: ")


def test_an_interruption_ends_no_epoch_unless_it_is_complete(tmp_path):
    for batch, last in ((1, "batch 1: update 2"), (2, "epoch 0 end")):
        events, progress = Events(), Progress()
        run = FakeRun(folder=tmp_path / str(batch), validate_every=99)
        assert run.training(max_epochs=2).run(progress, [events, Interrupt(batch)]) == "interrupted"
        assert events.heard[-2:] == [last, "train end"]
        assert not progress.history


def test_a_callback_that_stops_at_the_end_of_an_epoch_gets_no_further_update():
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    progress = Progress()
    assert FakeRun().training(max_updates=100).run(progress, [Stop()]) == "a callback stopped it"
    assert (progress.update, progress.history[-1]["update"]) == (3, 3)


def test_patience_counts_epochs_with_a_validation():
    stopping = keras.callbacks.EarlyStopping(patience=2)  # in epochs of three updates
    run, progress = FakeRun(validate_every=12), Progress()
    assert run.training(max_updates=99).run(progress, [stopping]) == "a callback stopped it"
    assert [row["update"] for row in progress.history] == [12, 24, 36]


def test_a_callback_can_stop_training_as_in_keras():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 3

    progress = Progress()
    assert FakeRun().training(max_updates=100).run(progress, [Stop()]) == "a callback stopped it"
    assert progress.update == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_training_after_the_current_update_and_saves_a_checkpoint(tmp_path, number):
    before = signal.getsignal(number)
    progress, run = Progress(), FakeRun(folder=tmp_path)
    assert run.training(max_updates=100).run(progress, [Interrupt(3, number)]) == "interrupted"
    assert signal.getsignal(number) == before
    assert progress.update == 4
    assert load_checkpoint(run.checkpoints.last(), run.model, run.optimizer) == progress
    assert [path.name for path in run.checkpoints.all()] == ["update-00000002.npz", "update-00000004.npz"]


def test_an_interim_checkpoint_is_saved_after_a_time_and_deleted_at_the_next_validation(tmp_path):
    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            here.append([path.name for path in run.checkpoints.all()])

    here, run = [], FakeRun(folder=tmp_path, validate_every=3)
    training = run.training(max_updates=5)
    training.checkpoint_every_minutes = 1e-9
    training.run(Progress(), [Watch()])
    assert here == [[], ["passing-00000001.npz"], ["passing-00000002.npz"], ["update-00000003.npz"]] + [
        ["update-00000003.npz", "passing-00000004.npz"]
    ]
    assert [path.name for path in run.checkpoints.all()] == ["update-00000003.npz", "update-00000005.npz"]


def test_an_interruption_changes_neither_the_history_nor_the_means_of_logs(tmp_path):
    def finish(run, progress):
        run.training(max_updates=7).run(progress)
        return [
            {name: value for name, value in row.items() if name not in ("minutes", "tokens_per_second")}
            for row in progress.history
        ]

    class Uneven(FakeRun):
        def _update(self, batch):
            return TrainStepMetrics(np.float32(len(self.seen) + 1), *super()._update(batch)[1:])

    settings = {"log_every": 3, "validate_every": 4}
    expected = finish(Uneven(**settings), Progress())
    progress, run = Progress(), Uneven(folder=tmp_path, **settings)
    assert run.training(max_updates=7).run(progress, [Interrupt(4)]) == "interrupted"
    assert progress.update == 5
    assert [path.name for path in run.checkpoints.all()] == ["update-00000004.npz", "passing-00000005.npz"]
    resumed = run.checkpoints.restore(run.model, run.optimizer)
    assert finish(run, resumed) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_ends_training_and_leaves_earlier_checkpoints(tmp_path, value):
    class Diverging(FakeRun):
        def _update(self, batch):
            logs = super()._update(batch)
            return logs._replace(loss=np.float32(value)) if len(self.seen) == 5 else logs

    run = Diverging(folder=tmp_path, validate_every=2, log_every=10)
    with pytest.raises(
        InputError, match=r"update 6: training has diverged.*a loss of (nan|inf).*lower training.learning_rate"
    ):
        run.training(max_updates=20).run(Progress())
    assert run.checkpoints.restore(run.model, run.optimizer).update == 4


def test_a_second_signal_ends_training_at_once():
    with pytest.raises(KeyboardInterrupt):
        FakeRun().training(max_updates=100).run(Progress(), [Interrupt(0, times=2)])


def test_training_ends_after_patience_validations_in_a_row_without_gain():
    metrics = [5.0, 4.0, 4.5, 3.0, 3.0, 3.1, 1.0]
    progress = Progress()
    reason = FakeRun(metrics, patience=2).training(max_updates=100).run(progress)
    assert reason == "2 validations without a better loss"
    assert [row["val_loss"] for row in progress.history] == metrics[:6]
    assert progress.best_update == 8


@pytest.mark.parametrize(("losses", "best"), [([3.0, 2.0, 2.5, 2.0], 4), ([2.0, 3.0], 2), ([1.0, 1.0, 0.5], 6)])
def test_validations_of_equal_bleu_are_told_apart_by_their_loss(tmp_path, losses, best):
    run = FakeRun([0.0], "bleu", tmp_path)
    validate, losses = run._validate, iter([*losses, *[9.0] * 9])
    run._validate = lambda: validate() | {"val_loss": next(losses)}
    progress = Progress()
    run.training(max_updates=4).run(progress)
    progress = load_checkpoint(run.checkpoints.last(), run.model, run.optimizer)
    run.training(max_updates=10).run(progress)
    assert (progress.best_metric, progress.best_update) == (0.0, best)
    assert progress.validations_without_gain == (10 - best) // 2
    assert load_checkpoint(run.checkpoints.best, run.model).update == best


@pytest.mark.parametrize(("metric", "best"), [("loss", 4), ("bleu", 6), ("token_accuracy", 6)])
def test_the_best_checkpoint_has_the_lowest_loss_or_the_highest_other_metric(tmp_path, metric, best):
    run, progress = FakeRun([2.0, 1.0, 3.0, 2.5], metric, tmp_path), Progress()
    run.training(max_updates=8).run(progress)
    assert progress.best_update == best
    assert progress.best_metric == {"loss": 1.0}.get(metric, 3.0)
    assert load_checkpoint(run.checkpoints.best, run.model).update == best
    assert float(run.model.trainable_variables[0][0, 0]) == best  # the weights of that update


def test_every_validation_saves_a_checkpoint_of_its_update(tmp_path):
    run = FakeRun(folder=tmp_path)
    run.training(max_updates=5).run(Progress())
    for update in (2, 4, 5):
        assert load_checkpoint(tmp_path / f"update-{update:08d}.npz", run.model).update == update
        assert float(run.model.trainable_variables[0][0, 0]) == update


def test_the_row_of_a_validation_has_the_mean_loss_per_token_since_the_last_logs():
    progress = Progress()
    FakeRun(log_every=5, validate_every=4).training(max_updates=4).run(progress)
    assert progress.history[0]["loss"] == pytest.approx(2.0)

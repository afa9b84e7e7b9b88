"""Several updates in a call: the same updates, and calls that end where the loop or a callback acts."""

from itertools import accumulate

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.training import loop
from qkv.training.progress import Progress
from tests.support import training
from tests.support.training import FakeBatches, FakeRun

UPDATES = 23


@pytest.fixture(autouse=True)
def long_epochs(monkeypatch):
    monkeypatch.setattr(training, "BATCHES", 10)


def trained(updates_per_call, callbacks=(), updates=UPDATES, progress=None, **settings):
    run, progress = FakeRun(**settings), progress or Progress()
    run.settings["updates_per_call"] = updates_per_call
    run.training(max_updates=updates).run(progress, list(callbacks))
    return run, progress


class Heard(keras.callbacks.Callback):
    """Writes down the events that it is told, and says which updates it needs."""

    def __init__(self, needed=None):
        super().__init__()
        self.heard = []
        if needed is not None:
            self.needed_updates = needed

    def on_train_batch_begin(self, batch, logs=None):
        self.heard.append(("begin", batch))

    def on_train_batch_end(self, batch, logs=None):
        self.heard.append(("end", batch, bool(logs)))

    def on_test_end(self, logs=None):
        self.heard.append(("validation", logs["update"]))


@given(st.integers(2, 30), st.integers(1, 12), st.integers(1, 12), st.integers(1, UPDATES))
def test_calls_make_the_same_updates_and_end_where_the_loop_acts(most, log_every, validate_every, stop):
    settings = {"log_every": log_every, "validate_every": validate_every}
    expected, _ = trained(1, updates=stop, **settings)
    callback = Heard(needed=(7,))
    run, progress = trained(most, [callback], updates=stop, **settings)
    assert run.seen == expected.seen and progress.update == stop
    assert [row["update"] for row in progress.history] == [
        *range(validate_every, stop + 1, validate_every),
        *([stop] if stop % validate_every else []),
    ]
    ends = set(accumulate(run.calls))
    acts = {update for every in (log_every, validate_every, 10) for update in range(every, stop + 1, every)}
    assert acts | ({7} & set(range(stop + 1))) | {1, stop} <= ends
    assert max(run.calls) <= most and run.calls[0] == 1
    assert [event[1] for event in callback.heard if event[0] == "end"] == list(range(stop))
    assert all(
        logged == ((update + 1) % log_every == 0)
        for event, update, *logged_ in callback.heard
        if event == "end"
        for logged in logged_
    )


def test_the_means_of_logs_do_not_depend_on_calls(monkeypatch):
    losses = iter([])
    monkeypatch.setattr(
        FakeRun, "_update", lambda run, batch: loop.TrainStepMetrics(*np.float32([next(losses), 3, 0.1]))
    )
    histories = []
    for most in (1, 8):
        losses = iter(np.random.default_rng(1).random(UPDATES))
        _, progress = trained(most, log_every=5, validate_every=7)
        histories.append([row["loss"] for row in progress.history])
    assert histories[0] == histories[1]


def test_a_callback_that_needs_every_update_gets_calls_of_one():
    every = Heard()
    run, _ = trained(8, [every], updates=6, log_every=50, validate_every=50)
    assert run.calls == [1] * 6
    assert every.heard[:4] == [("begin", 0), ("end", 0, False), ("begin", 1), ("end", 1, False)]
    run, _ = trained(8, [keras.callbacks.LambdaCallback(on_epoch_end=print)], updates=6, log_every=50)
    assert run.calls == [1, 1, 2, 2]  # validations after every second update
    on_each = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    run, _ = trained(8, [on_each], updates=6, log_every=50)
    assert run.calls == [1] * 6  # Keras keeps its functions on the object, not on the class


def test_several_updates_are_refused_where_a_call_can_make_one_only(monkeypatch):
    monkeypatch.setattr(FakeBatches, "accumulated", 2)
    with pytest.raises(InputError, match=r"training\.updates_per_call: 8 updates need .* batches\.accumulated 1"):
        trained(8)
    monkeypatch.setattr(FakeBatches, "accumulated", 1)
    monkeypatch.setattr(training.FakeStep, "takes_several", False)
    with pytest.raises(InputError, match=r"training\.updates_per_call: .* batches\.packed true"):
        trained(8)
    assert trained("auto")[0].calls == []


def test_auto_makes_several_updates_on_a_gpu_in_calls_of_a_second(monkeypatch):
    assert trained("auto", log_every=50, validate_every=50)[0].calls == []  # on the processor
    monkeypatch.setattr(loop, "visible_gpus", lambda: [None])
    assert trained("auto", log_every=50, validate_every=50)[0].calls == [1, 1, 8, 10, 3]
    monkeypatch.setattr(loop, "MOST_UPDATES_PER_CALL", 5)
    assert trained("auto", log_every=50, validate_every=50)[0].calls == [1, 1, 5, 3, 5, 5, 3]
    monkeypatch.setattr(loop, "MOST_CALL_SECONDS", 0.0)
    assert trained("auto", updates=5, log_every=50, validate_every=50)[0].calls == [1] * 5


def test_batches_in_parts_are_computed_one_by_one(monkeypatch):
    made = []
    monkeypatch.setattr(
        loop.Accumulation,
        "make",
        lambda updates, batches, progress: made.append(len(batches)) or updates.step(batches[0]),
    )
    run, _ = trained(8, updates=4, progress=Progress(split_positions=9), log_every=50, validate_every=50)
    assert made == [1] * 4 and run.calls == []

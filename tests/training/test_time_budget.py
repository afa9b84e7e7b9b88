"""Totals of updates are estimated by a clock that tests wind up themselves."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.training import loop
from qkv.training.checkpoints import Checkpoints
from qkv.training.loop import Training
from qkv.training.optimizers import make_optimizer
from qkv.training.progress import Progress
from qkv.training.schedule import ClockSchedule
from qkv.training.stopping import INTERRUPTED, Limits, StoppingRules
from qkv.training.time_budget import TimeBudget, is_due, updates_within
from qkv.training.worker_checks import SingleProcess
from tests.support.layer_contract import assert_close
from tests.support.training import BATCHES, ONE_VOTE, FakeRun

MINUTES, UPDATE_SECONDS, VALIDATION_SECONDS = 2, 0.375, 1.5  # sums of these are exact


class ClockedRun(FakeRun):
    """Updates and validations that take their time on the run's own clock."""

    def __init__(self, monkeypatch, validate_every=None, **settings):
        super().__init__(validate_every=validate_every, log_every=50, **settings)
        self.schedule = ClockSchedule(0.5, 4)
        self.optimizer = make_optimizer(self.schedule, optimizer="adam", beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self.optimizer.build(self.model.trainable_variables)
        self.rate = tf.function(lambda: self.schedule(self.optimizer.iterations), autograph=False)
        self.rates, self.update_seconds = {}, UPDATE_SECONDS
        monkeypatch.setattr(loop, "TrainingClock", self.start_clock)

    def start_clock(self, seconds_before):
        self.now = seconds_before
        return self

    def seconds(self):
        return self.now

    def training(self, workers=None, **limits):
        training = super().training()
        limits = Limits(max_minutes=MINUTES, measured=True, **limits)
        training.stopping = StoppingRules(limits, self.metric, votes=ONE_VOTE)
        training.time_budget = TimeBudget(
            self.schedule,
            limits,
            updates_per_epoch=BATCHES,
            validate_every=training.validate_every_updates,
            workers=workers or SingleProcess(),
        )
        return training

    def _update(self, batch):
        self.now += self.update_seconds * self.slowness()
        self.rates[int(self.optimizer.iterations)] = float(self.rate())
        self.optimizer.iterations.assign_add(1)
        return super()._update(batch)

    def slowness(self):
        """How many times as long as usual an update takes."""
        return 1

    def _validate(self):
        self.now += VALIDATION_SECONDS
        return super()._validate()


@pytest.fixture(scope="module")
def straight():
    """A run that nothing interrupts, and its progress, which tests share."""
    with pytest.MonkeyPatch.context() as patch:
        run, progress = ClockedRun(patch), Progress()
        run.training().run(progress)
    return run, progress


@pytest.mark.parametrize("validate_every", [None, 7, 40])
def test_training_ends_when_its_minutes_end_and_its_rate_is_zero(monkeypatch, validate_every):
    run, progress = ClockedRun(monkeypatch, validate_every), Progress()
    reason = run.training().run(progress)
    assert reason == f"{progress.update} updates, as many as fitted into 2 minutes"
    assert progress.update == progress.total_updates == int(run.schedule.total)
    assert progress.seconds == pytest.approx(60 * MINUTES, abs=2 * VALIDATION_SECONDS)
    assert run.rates[progress.update - 1] < 0.01 < 0.49 < max(run.rates.values()) <= 0.5


def test_callbacks_at_validations_are_part_of_the_time(monkeypatch):
    class Drawing(keras.callbacks.Callback):
        def on_test_end(self, logs=None):
            run.now += 3

        def rehearse(self):
            run.now += 3

    run, progress = ClockedRun(monkeypatch), Progress()
    run.training().run(progress, [Drawing()])
    assert progress.seconds + 3 == pytest.approx(60 * MINUTES, abs=2 * (VALIDATION_SECONDS + 3))


def test_ten_validations_are_spread_evenly_and_the_last_is_at_the_end(straight):
    _, progress = straight
    updates = [row["update"] for row in progress.history]
    assert len(updates) == 10 and updates[-1] == progress.total_updates
    assert np.ptp(np.diff([0, *updates])) <= 1


CHANGES = {"half": (1, 2), "double": (2, 1), "third": (1, 3), "tenth": (1, 10)}  # slowness before, and after


class Changing(ClockedRun):
    """Its speed changes after half the minutes."""

    def __init__(self, monkeypatch, change, validate_every=None, folder=None):
        super().__init__(monkeypatch, validate_every, folder=folder)
        self.change = change

    def slowness(self):
        return CHANGES[self.change][self.now > 30 * MINUTES]


@pytest.mark.parametrize("validate_every", [None, 20])
@pytest.mark.parametrize("change", CHANGES)
def test_minutes_are_minutes_and_ten_validations_ten_where_the_speed_changes(monkeypatch, change, validate_every):
    run, progress = Changing(monkeypatch, change, validate_every), Progress()
    run.training().run(progress)
    assert progress.seconds == pytest.approx(60 * MINUTES, rel=0.1)
    rates = [run.rates[update] for update in range(progress.update)]
    assert (np.diff(rates[4:]) <= 0).all() and rates[-1] < 0.03
    assert validate_every or len(progress.history) == 10
    assert progress.history[-1]["update"] == progress.update


def test_a_validation_that_takes_longer_than_before_lowers_the_total(monkeypatch, straight):
    class Reading(ClockedRun):
        def _validate(self):
            self.now += 3.0 * (self.now > 30 * MINUTES)
            return super()._validate()

    (_, steady), slower = straight, Progress()
    Reading(monkeypatch).training().run(slower)
    assert slower.update < steady.update - 20
    assert slower.seconds == pytest.approx(60 * MINUTES, rel=0.05)


def test_history_has_the_total_of_the_updates_before_each_validation(monkeypatch):
    progress = Progress()
    Changing(monkeypatch, "half").training().run(progress)
    totals = [row["total_updates"] for row in progress.history]
    assert totals[0] == totals[4] > 1.2 * totals[-1] and totals[-1] == progress.update
    updates = [0, *(row["update"] for row in progress.history)]
    assert progress.totals == list(zip(updates, [*totals, totals[-1]], strict=True))


class Asked:
    """A chief whose answers are written down."""

    def __init__(self):
        self.answers = []

    def broadcast_from_chief(self, value, for_what):
        self.answers.append(value)
        return value


class Told(Asked):
    """The answers of another chief, one after another."""

    def broadcast_from_chief(self, value, for_what):
        return self.answers.pop(0)


@pytest.mark.parametrize("change", ["half", "tenth"])
def test_the_same_totals_give_the_same_weights_at_any_speed(monkeypatch, change):
    (first, expected), chief, told = (Changing(monkeypatch, change), Progress()), Asked(), Told()
    first.training(chief).run(expected)
    told.answers = chief.answers
    second, progress = ClockedRun(monkeypatch), Progress()
    second.training(told).run(progress)
    assert progress.totals == expected.totals and progress.seconds < 0.9 * expected.seconds
    assert second.rates == first.rates
    assert_close(second.optimizer.variables, first.optimizer.variables, 0)


def test_a_single_slow_update_brings_no_validation_forward(monkeypatch, straight):
    class Stalled(ClockedRun):
        def _update(self, batch):
            self.now += 12 * int(self.optimizer.iterations == 145)
            return super()._update(batch)

    (_, steady), stalled = straight, Progress()
    Stalled(monkeypatch).training().run(stalled)
    updates = [[row["update"] for row in progress.history] for progress in (steady, stalled)]
    assert updates[0][:6] == updates[1][:6] and 145 < updates[0][5] < 200


def test_the_slow_first_updates_are_not_measured(monkeypatch):
    class Tracing(ClockedRun):
        def _update(self, batch):
            self.now += 20 * (not self.seen)
            return super()._update(batch)

    progress = Progress()
    Tracing(monkeypatch).training().run(progress)
    assert progress.seconds == pytest.approx(60 * MINUTES, abs=2 * VALIDATION_SECONDS)


@pytest.mark.parametrize("stopped_at", [3, 24, 25, 112, 150])
def test_an_interruption_before_or_after_the_first_estimate_changes_nothing(monkeypatch, tmp_path, stopped_at):
    class SlowerLater(ClockedRun):
        def slowness(self):
            return 1 + int(self.optimizer.iterations >= 60)

    class Interrupted(SlowerLater):
        def training(self, **limits):
            self.rules = (training := super().training(**limits)).stopping
            return training

        def _update(self, batch):
            self.rules.interrupted = int(self.optimizer.iterations) + 1 == stopped_at
            return super()._update(batch)

    whole, expected = SlowerLater(monkeypatch), Progress()
    whole.training().run(expected)
    first = Interrupted(monkeypatch, folder=tmp_path)
    assert first.training().run(Progress()) == INTERRUPTED
    checkpoints = Checkpoints(tmp_path)
    assert bool(checkpoints.all()) == (stopped_at >= 25)  # without its total a run starts anew
    second = SlowerLater(monkeypatch, folder=tmp_path)
    resumed = checkpoints.restore(second.model, second.optimizer) if checkpoints.all() else Progress()
    assert (resumed.total_updates is None) == (stopped_at < 25)
    second.training().run(resumed)
    for row in (*resumed.history, *expected.history):
        row.pop("tokens_per_second", None)  # measured anew by each session
    assert replace(resumed, last_logs={}) == replace(expected, last_logs={})
    assert second.rates.items() <= whole.rates.items()
    assert_close(second.optimizer.variables, whole.optimizer.variables, 0)


def test_other_limits_lower_the_total(monkeypatch):
    for limits, total in (({"max_updates": 60}, 60), ({"max_epochs": 12}, 36), ({"max_updates": 10**6}, 272)):
        progress = Progress()
        ClockedRun(monkeypatch).training(**limits).run(progress)
        assert progress.update == pytest.approx(total, abs=3)


def test_minutes_that_are_over_before_they_are_measured_leave_the_rate_room_to_fall(monkeypatch):
    class Slow(ClockedRun):
        def _update(self, batch):
            self.update_seconds = 60.0
            return super()._update(batch)

    run, progress = Slow(monkeypatch), Progress()
    run.training().run(progress)
    assert progress.update == 30 and run.rates[29] < 0.2 < run.rates[26]


def test_validations_are_part_of_the_time():
    assert updates_within(100, 0.5, 0.0, None, 10) == updates_within(100, 0.5, 0.0, 10, 10) == 200
    assert updates_within(100, 0.5, 2.0, None, 10) == 160  # ten validations of two seconds
    assert updates_within(100, 0.5, 5.0, 10, 10) == 100  # each ten updates take five seconds and are validated in five
    assert updates_within(100, 0.5, 20.0, None, 10) < 0


@pytest.mark.parametrize("ready", [False, True])
def test_workers_follow_the_chief(ready):
    class ChiefSays:
        def __init__(self, value):
            self.value = value

        def broadcast_from_chief(self, value, for_what):
            return self.value

    schedule, progress = ClockSchedule(0.5, 4), Progress()
    budget = TimeBudget(
        schedule,
        Limits(max_minutes=1, measured=True),
        updates_per_epoch=9,
        validate_every=None,
        workers=ChiefSays(float(ready)),
        agree_every=10,
    )
    budget.restore(progress)
    asked = []
    for progress.update in range(1, 31):
        asked.append(budget.is_ready(progress, lambda: progress.update / 2))
    assert [update for update, answer in enumerate(asked, 1) if answer] == ([10, 20, 30] if ready else [])
    budget.workers.value = 321.0
    budget.estimate(progress, 15.0, 1.0, 20.0)
    assert progress.total_updates == schedule.total == 321


def test_training_without_a_time_budget_has_no_total():
    progress = Progress()
    run = FakeRun()
    assert isinstance(run.training(), Training)
    run.training(max_updates=40).run(progress)
    assert progress.total_updates is None


@pytest.mark.parametrize("total", [10, 11, 99, 100, 2107])
def test_ten_validations_are_spread_over_a_known_total(total):
    due = [update for update in range(1, total + 1) if is_due(update, None, total)]
    assert len(due) == 10 and due[-1] == total


def test_a_training_of_few_updates_is_validated_after_each():
    assert [is_due(update, None, 4) for update in range(1, 5)] == [True] * 4


def test_a_number_of_updates_between_validations_comes_first_and_an_unknown_total_has_none():
    assert [update for update in range(1, 10) if is_due(update, 4, 9)] == [4, 8]
    assert not any(is_due(update, None, None) for update in range(1, 100))

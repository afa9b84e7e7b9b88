"""The training loop. It is the same for one device and for several, and can continue after any update.

The loop calls `keras.callbacks.Callback` objects, with these differences from Keras' `fit`:

- `on_train_batch_end` receives logs every `log_every_updates` updates, and an empty dict after all other updates.
- `on_test_end` receives the row of a validation. Both logs have the number of updates under `update`.
- `on_epoch_end` receives the row of the last validation, without `epoch`; before the first validation, an empty dict.
  As in `fit`, it is also called if training ends within an epoch.
- A callback may have a method `rehearse`, see `Rehearsable`.
- A call of the step may make several updates, see `CallSizes`. `on_train_batch_begin` is called for all of them before
  the call, and `on_train_batch_end` for all of them after it, when the model has changed by all of them. A call ends
  with an update that is logged. If a callback has one of these two methods, each call makes a single update; unless the
  callback has an attribute `needed_updates`, the numbers of further updates with which a call must end, such as `()`.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol, runtime_checkable

import keras
import numpy as np

from ..config.choices.translation import rank
from ..errors import InputError
from ..runtime.devices import visible_gpus
from ..runtime.workers import Workers
from ..text.batch import Batch
from .accumulation import Accumulation
from .batches import TrainingBatches
from .checkpoints import Checkpoints
from .progress import Progress
from .step import TrainStep, TrainStepMetrics
from .stopping import INTERRUPTED, StoppingRules, check_finite
from .time_budget import TimeBudget, is_due

NEED_VALIDATION = (
    keras.callbacks.CSVLogger,
    keras.callbacks.EarlyStopping,
    keras.callbacks.History,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.RemoteMonitor,
)
"""Callbacks of Keras that expect new logs at the end of every epoch. They are called only at the end of epochs that had
a validation: otherwise `EarlyStopping` would count one validation several times, as several without a gain."""


@runtime_checkable
class Rehearsable(Protocol):
    """A callback whose `on_test_end` takes long enough to count in the time of a validation.

    A training with a `TimeBudget` measures how long a validation takes before it begins: it calls `rehearse` twice in
    place of `on_test_end`. In other trainings it is not called.
    """

    def rehearse(self) -> None:
        """Does the work of `on_test_end` in the same time, and writes nothing."""


MOST_UPDATES_PER_CALL = 16
"""The number of updates of a call on a GPU, from which the work of Python between two calls hardly counts."""
MOST_CALL_SECONDS = 1.0
"""The longest time of a call on a GPU, since a signal waits for the end of the call."""


@dataclass
class Training:
    """The parts of a training. `run` trains until a rule ends training, with validations and checkpoints in between.

    Args:
        step: makes an update of one batch.
        batches: the batches of every epoch.
        validate: measures the model with its current weights. It returns `val_loss`, `val_bleu` and the other metrics.
        checkpoints: the folder that the state is saved to; None for a worker that writes nothing.
        stopping: the rules that end training. Their metric also chooses the best checkpoint.
        workers: all workers of the training. The chief validates.
        validate_every_updates: updates between two validations; None for evenly spread ones, see `is_due`. A checkpoint
            is saved at each validation.
        log_every_updates: updates between two logs.
        checkpoint_every_minutes: minutes of training without a checkpoint after which an interim one is saved; None
            for no interim checkpoints.
        time_budget: estimates the total of updates while training runs; None if the total is known or unlimited.
        updates_per_call: the largest number of updates of a call of the step, see `CallSizes`.
    """

    step: TrainStep
    batches: TrainingBatches
    validate: Callable[[], dict[str, float]]
    checkpoints: Checkpoints | None
    stopping: StoppingRules
    workers: Workers
    validate_every_updates: int | None
    log_every_updates: int
    checkpoint_every_minutes: float | None = None
    time_budget: TimeBudget | None = None
    updates_per_call: int | Literal["auto"] = 1

    def run(
        self,
        progress: Progress,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        callback_params: Mapping[str, Any] | None = None,
    ) -> str:
        """Trains from `progress` on until training ends or is interrupted.

        Args:
            progress: the progress of the run, which is updated.
            callbacks: the callbacks, in the order of their calls.
            callback_params: the `params` of all callbacks.

        Returns:
            The reason why training ended, such as `5 updates`; `INTERRUPTED` after a signal.

        Raises:
            InputError: the loss is no longer finite, or a batch does not fit into memory.
        """
        self.step.model.stop_training = False
        events = keras.callbacks.CallbackList(list(callbacks), model=self.step.model, **(callback_params or {}))
        return Session(self, progress, events).run()


class Session:
    """One session of a training: its updates from the start or a resumption to the end or an interruption.

    Args:
        training: the parts of the training.
        progress: the progress of the run, which is updated.
        events: the callbacks.

    Attributes:
        clock: the time spent in training.
        saved_at: the seconds on that clock at the last checkpoint, or at the start of the session.
        meter: the means for the next logs.
        accumulation: makes the updates.
        call_sizes: the numbers of batches of the calls of the step.
    """

    def __init__(self, training: Training, progress: Progress, events: keras.callbacks.CallbackList) -> None:
        self.training = training
        self.step = training.step
        self.progress = progress
        self.events = events
        self.clock = TrainingClock(progress.seconds)
        self.saved_at = progress.seconds
        self.meter = TrainingMeter()
        self.accumulation = Accumulation(training.step)
        self.call_sizes = CallSizes(training, events.callbacks)

    def run(self) -> str:
        """Trains until there is a reason to stop, and returns it. See `Training.run`."""
        self._restore()
        with self.training.stopping.obeying_signals():
            self.events.on_train_begin()
            reason = self._reason_to_stop(asked_by_callback=False)
            while reason is None:
                reason = self._train_epoch()
            if not self._is_validated():
                if reason == INTERRUPTED:  # no validation: the resumed run must equal one without the interruption
                    self._save_interim()
                else:
                    self._validate()
            self.events.on_train_end()
        return reason

    def _restore(self) -> None:
        """Continues the means, the loss scale and the time budget from `progress`."""
        self.meter.restore(self.progress)
        if self.step.loss_scale is not None:
            self.step.loss_scale.restore(self.progress.loss_scale)
        if self.training.time_budget is not None:
            self.training.time_budget.restore(self.progress)

    def _reason_to_stop(self, asked_by_callback: bool) -> str | None:
        return self.training.stopping.reason(self.progress, self.clock.seconds(), asked_by_callback)

    def _train_epoch(self) -> str | None:
        """Trains to the end of the epoch, or until there is a reason to stop.

        Returns the reason to stop; None if training continues with the next epoch.
        """
        progress = self.progress
        epoch = progress.epoch
        validations = len(progress.history)
        self.events.on_epoch_begin(epoch)
        reason = self._train_batches()
        if reason == INTERRUPTED and progress.epoch == epoch:  # the resumed run ends the epoch
            return reason
        if reason not in (None, INTERRUPTED) and not self._is_validated():
            self._validate()
        row = progress.history[-1] if progress.history else {}
        logs = {name: float(value) for name, value in row.items() if name != "epoch"}  # floats as in `fit`
        for callback in self.events.callbacks:
            if len(progress.history) > validations or not isinstance(callback, NEED_VALIDATION):
                callback.on_epoch_end(epoch, logs)
        return reason or self._reason_to_stop(self.step.model.stop_training)

    def _train_batches(self) -> str | None:
        """Trains on the batches of the epoch from `Progress.batch` on.

        Returns the reason to stop; None if the epoch has ended and there is no reason to stop.
        """
        progress = self.progress
        batches = self.training.batches
        plan = batches.plan(progress.epoch)
        remaining = batches.epoch(progress.epoch, progress.batch)
        while group := list(islice(remaining, self.call_sizes.next(progress))):
            updates = self._make_updates(group)
            progress.batch += len(group)
            if progress.batch == plan.count:
                progress.epoch += 1
                progress.batch = 0
            progress.seconds = self.clock.seconds()
            logs = self._read_logs() if progress.update % self.training.log_every_updates == 0 else {}
            logs.pop("epoch", None)  # callbacks of Keras fill in file names by `format(epoch=epoch, **logs)`
            for update in range(progress.update - updates, progress.update):
                self.events.on_train_batch_end(update, logs if update == progress.update - 1 else {})
            time_budget = self.training.time_budget
            if time_budget is not None and time_budget.is_ready(progress, self._wait_for_device):
                self._estimate_first_total(time_budget)
            if self._is_validation_due():
                self._validate()
            elif self._is_interim_due():
                self._save_interim()
            if reason := self._reason_to_stop(self.step.model.stop_training):
                return reason
        return None

    def _make_updates(self, batches: Sequence[Batch]) -> int:
        """Makes the updates of a call from its batches, and returns their number."""
        progress = self.progress
        several = self.call_sizes.several
        updates = len(batches) if several else 1
        for update in range(progress.update, progress.update + updates):
            self.events.on_train_batch_begin(update)
        make = self.accumulation.make_several if several else self.accumulation.make
        with self.call_sizes.timing(self.meter):
            self.meter.add(make(batches, progress))
        progress.update += updates
        return updates

    def _is_validated(self) -> bool:
        """Returns whether a validation has followed the last update."""
        history = self.progress.history
        return bool(history) and history[-1]["update"] == self.progress.update

    def _read_logs(self) -> dict[str, float]:
        """Returns the logs of the updates since the last logs. Raises an `InputError` if a mean is not finite."""
        progress = self.progress
        means = self.meter.read(progress.seconds)
        check_finite(progress.update, means)
        rate = keras.ops.convert_to_numpy(self.step.optimizer.learning_rate)
        return {
            "update": progress.update,
            "epoch": progress.epoch,
            "minutes": progress.seconds / 60,
            **means,
            "learning_rate": float(rate),
            **self.accumulation.logs(),
        }

    def _is_validation_due(self) -> bool:
        training = self.training
        if training.time_budget is not None:
            return training.time_budget.is_validation_due(self.progress)
        return is_due(self.progress.update, training.validate_every_updates, training.stopping.limits.max_updates)

    def _validate(self) -> None:
        """Validates the model, appends the row to the history, and saves a checkpoint."""
        progress = self.progress
        training = self.training
        self.events.on_test_begin()
        logs = self._read_logs()
        if progress.total_updates is not None:
            logs["total_updates"] = progress.total_updates
        began = self.clock.seconds()
        metrics = training.validate() if training.workers.is_chief else None
        logs.update(training.workers.broadcast_from_chief(metrics, "to validate"))
        is_best = self._note_metric(logs)
        last_seconds = progress.seconds
        progress.seconds = self.clock.seconds()
        self.meter.leave_out(progress.seconds - last_seconds)
        progress.history.append(logs)
        # Before the checkpoint is written: if the process dies in between, the resumed run repeats the callbacks.
        self.events.on_test_end(logs)
        if training.time_budget is not None and progress.total_updates is not None:
            progress.seconds = self.clock.seconds()
            training.time_budget.estimate(progress, began, progress.seconds - began, progress.seconds)
        self._note_saving()
        if training.checkpoints is not None:
            training.checkpoints.save(self.step.model, self.step.optimizer, progress, is_best)

    def _note_metric(self, logs: dict[str, float]) -> bool:
        """Returns whether the validation with these logs is the best so far, and updates the best value in `progress`.

        If two validations have the same value of the metric, the lower loss is better.
        """
        progress = self.progress
        metric = self.training.stopping.metric
        is_best = not progress.history or rank(metric, logs) < rank(metric, progress.best_validation)
        if is_best:
            progress.best_metric = logs[f"val_{metric}"]
            progress.best_update = progress.update
        progress.validations_without_gain = 0 if is_best else progress.validations_without_gain + 1
        return is_best

    def _is_interim_due(self) -> bool:
        minutes = self.training.checkpoint_every_minutes
        return minutes is not None and self.clock.seconds() - self.saved_at >= 60 * minutes

    def _save_interim(self) -> None:
        """Saves an interim checkpoint, unless the total of updates has still to be estimated.

        An interrupted run without its total starts again from its first update, so that the total is estimated after
        the same update as in a run without the interruption.
        """
        self._note_saving()
        checkpoints = self.training.checkpoints
        is_total_missing = self.training.time_budget is not None and self.progress.total_updates is None
        if checkpoints is not None and not is_total_missing:
            checkpoints.save_interim(self.step.model, self.step.optimizer, self.progress)

    def _note_saving(self) -> None:
        """Stores the state of the means and of the loss scale in `progress`, for a checkpoint."""
        self.meter.save_to(self.progress)
        if self.step.loss_scale is not None:
            self.progress.loss_scale = self.step.loss_scale.state()
        self.saved_at = self.progress.seconds

    def _estimate_first_total(self, time_budget: TimeBudget) -> None:
        """Measures the time of a validation, estimates the total of updates by it, and saves an interim checkpoint."""
        progress = self.progress
        interrupted = self.clock.seconds()
        started = interrupted
        for _ in range(2 if self.training.workers.is_chief else 0):  # the first validation traces its graphs
            started = self.clock.seconds()
            self.training.validate()
            for callback in self.events.callbacks:
                if isinstance(callback, Rehearsable):
                    callback.rehearse()
        progress.seconds = self.clock.seconds()
        time_budget.estimate(progress, interrupted, progress.seconds - started, progress.seconds)
        self.meter.leave_out(progress.seconds - interrupted)
        self._save_interim()

    def _wait_for_device(self) -> float:
        """Waits until the device has made all updates, and returns the seconds spent in training."""
        self.meter.wait()
        return self.clock.seconds()


def most_updates_of_call(setting: int | Literal["auto"], step: TrainStep, accumulated: int) -> int:
    """Returns the largest number of updates of a call of the step, see `CallSizes`.

    Args:
        setting: `training.updates_per_call` of the config.
        step: the training step.
        accumulated: the number of batches of an update.

    Raises:
        InputError: the setting is more than 1, but a call can make one update only.
    """
    can_be_several = step.takes_several and accumulated == 1
    if setting == "auto":
        return MOST_UPDATES_PER_CALL if can_be_several and visible_gpus() else 1
    if setting > 1 and not can_be_several:
        raise InputError(
            f"training.updates_per_call: {setting} updates need batches of one shape, on one device; expected 1 or "
            "auto, or batches.packed true, batches.accumulated 1 and --run.devices 1"
        )
    return setting


class CallSizes:
    """The numbers of batches of the calls of the step, each of which makes one update or several.

    A call that makes several updates ends with an update after which the loop acts: a log, a validation, the end of an
    epoch or of the training, an update that a callback needs. The division of updates into calls changes no number.

    `Training.updates_per_call` is the largest number of updates of a call. More than 1 needs batches of one shape, one
    device, and one batch an update. `auto` is `MOST_UPDATES_PER_CALL` on a GPU if all this holds, with calls of
    `MOST_CALL_SECONDS` at most; otherwise 1. The first call makes one update, which may not fit into memory.

    Args:
        training: the parts of the training.
        callbacks: the callbacks, some of which may need every update.

    Attributes:
        several: True if calls make several updates; False if each call makes one update, from
            `TrainingBatches.accumulated` batches.

    Raises:
        InputError: see `most_updates_of_call`.
    """

    def __init__(self, training: Training, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        self._training = training
        self._is_auto = training.updates_per_call == "auto"
        self._most = most_updates_of_call(training.updates_per_call, training.step, training.batches.accumulated)
        self.several = self._most > 1
        if any(_acts_on_updates(callback) and not hasattr(callback, "needed_updates") for callback in callbacks):
            self._most = 1
        self._needed = {update for callback in callbacks for update in getattr(callback, "needed_updates", ())}
        self._calls = 0
        self._seconds: float | None = None  # of an update

    def next(self, progress: Progress) -> int:
        """Returns the number of batches of the next call. It may be more than the epoch has left."""
        if not self.several:
            return self._training.batches.accumulated
        time_budget = self._training.time_budget
        is_measured = time_budget is not None and progress.total_updates is None
        if not self._calls or is_measured or progress.split_positions is not None:
            return 1
        most = self._most
        if self._is_auto:
            most = 1 if self._seconds is None else min(most, max(int(MOST_CALL_SECONDS / self._seconds), 1))
        return next((number for number in range(1, most) if self._is_end(progress, progress.update + number)), most)

    def _is_end(self, progress: Progress, update: int) -> bool:
        """Returns whether the loop acts after an update."""
        training = self._training
        max_updates = training.stopping.limits.max_updates
        if training.time_budget is not None:
            is_validated = training.time_budget.is_planned(progress, update)
        else:
            is_validated = is_due(update, training.validate_every_updates, max_updates)
        ends = {max_updates, progress.total_updates} | self._needed
        return is_validated or update % training.log_every_updates == 0 or update in ends

    @contextmanager
    def timing(self, meter: "TrainingMeter") -> Iterator[None]:
        """Measures the second call if `updates_per_call` is `auto`; the first one compiles."""
        self._calls += 1
        if not self.several or not self._is_auto or self._calls != 2:
            yield
            return
        meter.wait()
        began = time.monotonic()
        yield
        meter.wait()
        self._seconds = max(time.monotonic() - began, 1e-6)


_BATCH_EVENTS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def _acts_on_updates(callback: keras.callbacks.Callback) -> bool:
    """Returns whether a callback has a method of its own that is called with every update."""
    methods = ((getattr(callback, name), getattr(keras.callbacks.Callback, name)) for name in _BATCH_EVENTS)
    return any(getattr(method, "__func__", method) is not inherited for method, inherited in methods)


class TrainingClock:
    """The time spent in training, over all sessions of a run.

    Args:
        seconds_before: the seconds of the earlier sessions.
    """

    def __init__(self, seconds_before: float) -> None:
        self.start = time.monotonic() - seconds_before

    def seconds(self) -> float:
        """Returns the seconds of this session and of all earlier ones."""
        return time.monotonic() - self.start


class TrainingMeter:
    """Averages the loss and the gradient norm of updates for the logs.

    A *reading* is a call of `read`: it averages the updates since the reading before it. An interruption in between
    changes nothing, see `restore`.

    The values stay on the device until they are read: reading waits for the device.

    Attributes:
        pending: the metrics since the last reading, each of an update or of several updates in arrays.
        last: the means that the last reading returned.
        read_at: the seconds spent in training at the last reading; None before the first reading of the session.
    """

    def __init__(self) -> None:
        self.pending: list[TrainStepMetrics] = []
        self.last: dict[str, float] = {}
        self.read_at: float | None = None

    def restore(self, progress: Progress) -> None:
        """Continues from `progress`, in which `save_to` has stored the last means and the updates since then."""
        self.pending = [TrainStepMetrics(*values) for values in progress.unread]
        self.last = dict(progress.last_logs)

    def save_to(self, progress: Progress) -> None:
        """Stores the last means and the updates since then in `progress`: its `last_logs` and `unread`."""
        progress.unread = [list(metrics) for metrics in self._updates()]
        progress.last_logs = self.last

    def add(self, metrics: TrainStepMetrics) -> None:
        """Adds the metrics of an update, or of several updates in arrays."""
        self.pending.append(metrics)

    def _updates(self) -> list[TrainStepMetrics]:
        """Returns the metrics of each update since the last reading, as numbers of Python."""
        columns = (
            np.concatenate([np.atleast_1d(keras.ops.convert_to_numpy(value)) for value in values]).tolist()
            for values in zip(*self.pending, strict=True)
        )
        return [TrainStepMetrics(*values) for values in zip(*columns, strict=True)]

    def wait(self) -> None:
        """Waits until the device has made all updates."""
        if self.pending:
            keras.ops.convert_to_numpy(self.pending[-1].loss)

    def read(self, seconds: float) -> dict[str, float]:
        """Averages the updates since the last reading. If there are no new updates, returns the last means again.

        Args:
            seconds: the seconds spent in training.

        Returns:
            A dict with `loss`, the mean cross-entropy of a target token in nats; `gradient_norm`, the root mean square
            of the norms of the updates; and, from the second reading of a session on, `tokens_per_second`, the number
            of target tokens.
        """
        if updates := self._updates():
            tokens = sum(metrics.tokens for metrics in updates)
            squares = sum(metrics.gradient_norm**2 for metrics in updates)
            self.last = {
                "loss": sum(metrics.loss for metrics in updates) / max(tokens, 1),
                "gradient_norm": math.sqrt(squares / len(updates)),
            }
            if self.read_at is not None and seconds > self.read_at:
                self.last["tokens_per_second"] = tokens / (seconds - self.read_at)
            self.pending = []
        self.read_at = seconds
        return self.last

    def leave_out(self, seconds: float) -> None:
        """Leaves a time, such as the seconds of a validation, out of the next `tokens_per_second`."""
        if self.read_at is not None:
            self.read_at += seconds

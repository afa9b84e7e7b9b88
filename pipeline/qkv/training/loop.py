"""The training loop: the same for one device and for many, and able to continue from any update.

It drives standard `keras.callbacks.Callback` objects. `on_train_batch_end` receives logs every `log_every_updates`
updates and none in between; `on_test_end` receives the row of a validation. Both have the number of updates under
`update`. `on_epoch_end` receives the last validation's row without `epoch`, nothing before the first. As in `fit`, it
is also called when training ends within an epoch.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import keras

from ..config.choices.translation import rank
from ..runtime.workers import Workers
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
"""Callbacks of Keras that take the logs at the end of an epoch for new ones. They are called only at the end of epochs
that had a validation: otherwise `EarlyStopping` would count the same validation as several without a gain."""


@dataclass
class Training:
    """Trains until a rule ends training, with validations and checkpoints in between.

    Args:
        step: makes an update of one batch.
        batches: the batches of every epoch.
        validate: returns the metrics of the model as it is: `val_loss`, `val_bleu` and others.
        checkpoints: where the state is saved; None for a worker that writes nothing.
        stopping: the rules that decide when training ends, with the metric that chooses the best checkpoint.
        workers: all workers of the training; the chief validates.
        validate_every_updates: updates between two validations, each with a checkpoint; see `is_due`.
        log_every_updates: updates between two logs.
        checkpoint_every_minutes: minutes of training without a checkpoint after which an interim one is saved; None
            for never.
        time_budget: estimates the total of updates while training runs; None if it is known or not limited.
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

    def run(
        self,
        progress: Progress,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        callback_params: Mapping[str, Any] | None = None,
    ) -> str:
        """Trains from `progress` on, which it keeps up to date, and returns why training ended.

        Args:
            progress: how far the run has come.
            callbacks: what is called on the way. `rehearse` of those that have it takes as long as their `on_test_end`,
                and leaves nothing.
            callback_params: the `params` of the callbacks.

        Raises:
            InputError: the loss is no longer finite, or a batch does not fit into memory.
        """
        self.progress = progress
        self.model = self.step.model
        self.model.stop_training = False
        self.events = keras.callbacks.CallbackList(list(callbacks), model=self.model, **(callback_params or {}))
        self.clock = TrainingClock(progress.seconds)
        self.saved_at = progress.seconds
        self.meter = TrainingMeter()
        self.accumulation = Accumulation(self.step)
        self.meter.restore(progress)
        if self.step.loss_scale is not None:
            self.step.loss_scale.restore(progress.loss_scale)
        if self.time_budget is not None:
            self.time_budget.restore(progress)
        with self.stopping.obeying_signals():
            self.events.on_train_begin()
            reason = self.stopping.reason(progress, self.clock.seconds())
            while reason is None:
                reason = self._train_epoch()
            if not self._is_validated():
                if reason == INTERRUPTED:  # no validation: the resumed run must equal one without the interruption
                    self._save_interim()
                else:
                    self._validate()
            self.events.on_train_end()
        return reason

    def _train_epoch(self) -> str | None:
        """Trains to the end of the epoch, or until there is a reason to stop, which it returns."""
        progress, epoch, validations = self.progress, self.progress.epoch, len(self.progress.history)
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
        return reason or self.stopping.reason(progress, self.clock.seconds(), self.model.stop_training)

    def _train_batches(self) -> str | None:
        """Trains on the batches that are left of the epoch; returns the reason to stop, or None at the epoch's end."""
        progress = self.progress
        plan = self.batches.plan(progress.epoch)
        batches = self.batches.epoch(progress.epoch, progress.batch)
        while group := list(islice(batches, self.batches.accumulated)):
            self.events.on_train_batch_begin(progress.update)
            self.meter.add(self.accumulation.make(group, progress))
            progress.update += 1
            progress.batch += len(group)
            if progress.batch == plan.count:
                progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.seconds = self.clock.seconds()
            logs = self._read_logs() if progress.update % self.log_every_updates == 0 else {}
            logs.pop("epoch", None)  # callbacks of Keras fill in file names by `format(epoch=epoch, **logs)`
            self.events.on_train_batch_end(progress.update - 1, logs)
            if self.time_budget is not None and self.time_budget.is_ready(progress, self._waited_seconds):
                self._estimate_first_total()
            if self._is_validation_due():
                self._validate()
            elif self._is_interim_due():
                self._save_interim()
            if reason := self.stopping.reason(progress, self.clock.seconds(), self.model.stop_training):
                return reason
        return None

    def _is_validated(self) -> bool:
        """Returns whether the last update was followed by a validation."""
        history = self.progress.history
        return bool(history) and history[-1]["update"] == self.progress.update

    def _read_logs(self) -> dict[str, float]:
        progress = self.progress
        logs = self.meter.read(progress.seconds)
        check_finite(progress.update, logs)
        place = {"update": progress.update, "epoch": progress.epoch, "minutes": progress.seconds / 60}
        rate = keras.ops.convert_to_numpy(self.step.optimizer.learning_rate)
        return {**place, **logs, "learning_rate": float(rate), **self.accumulation.logs()}

    def _is_validation_due(self) -> bool:
        if self.time_budget is not None:
            return self.time_budget.is_validation_due(self.progress)
        return is_due(self.progress.update, self.validate_every_updates, self.stopping.limits.max_updates)

    def _validate(self) -> None:
        progress = self.progress
        self.events.on_test_begin()
        logs = self._read_logs()
        if progress.total_updates is not None:
            logs["total_updates"] = progress.total_updates
        began = self.clock.seconds()
        metrics = self.validate() if self.workers.is_chief else None
        logs.update(self.workers.broadcast_from_chief(metrics, "to validate"))
        is_best = self._note_metric(logs)
        interrupted, progress.seconds = progress.seconds, self.clock.seconds()
        self.meter.leave_out(progress.seconds - interrupted)
        progress.history.append(logs)
        # Before the checkpoint is written: if the process dies in between, the resumed run repeats the callbacks.
        self.events.on_test_end(logs)
        if self.time_budget is not None and progress.total_updates is not None:
            progress.seconds = self.clock.seconds()
            self.time_budget.estimate(progress, began, progress.seconds - began, progress.seconds)
        self._note_saving()
        if self.checkpoints is not None:
            self.checkpoints.save(self.model, self.step.optimizer, progress, is_best)

    def _note_metric(self, logs: dict[str, float]) -> bool:
        """Updates the best value so far, and returns whether this validation has it; the loss breaks ties."""
        progress, metric = self.progress, self.stopping.metric
        is_best = not progress.history or rank(metric, logs) < rank(metric, progress.best_validation)
        if is_best:
            progress.best_metric, progress.best_update = logs[f"val_{metric}"], progress.update
        progress.validations_without_gain = 0 if is_best else progress.validations_without_gain + 1
        return is_best

    def _is_interim_due(self) -> bool:
        minutes = self.checkpoint_every_minutes
        return minutes is not None and self.clock.seconds() - self.saved_at >= 60 * minutes

    def _save_interim(self) -> None:
        self._note_saving()
        # A run without its total starts anew, so that the first one is estimated where it is without interruption.
        if self.checkpoints is not None and (self.time_budget is None or self.progress.total_updates is not None):
            self.checkpoints.save_interim(self.model, self.step.optimizer, self.progress)

    def _note_saving(self) -> None:
        self.meter.save_to(self.progress)
        if self.step.loss_scale is not None:
            self.progress.loss_scale = self.step.loss_scale.state()
        self.saved_at = self.progress.seconds

    def _estimate_first_total(self) -> None:
        """Estimates the total of updates with the time of a validation, and saves it."""
        progress, time_budget = self.progress, self.time_budget
        assert time_budget is not None
        interrupted = started = self.clock.seconds()
        for _ in range(2 if self.workers.is_chief else 0):  # the first one traces its graphs
            started = self.clock.seconds()
            self.validate()
            for callback in self.events.callbacks:
                if hasattr(callback, "rehearse"):
                    callback.rehearse()
        progress.seconds = self.clock.seconds()
        time_budget.estimate(progress, interrupted, progress.seconds - started, progress.seconds)
        self.meter.leave_out(progress.seconds - interrupted)
        self._save_interim()

    def _waited_seconds(self) -> float:
        self.meter.wait()
        return self.clock.seconds()


class TrainingClock:
    """Measures the seconds spent in training, after the seconds of earlier sessions."""

    def __init__(self, seconds_before: float) -> None:
        self.start = time.monotonic() - seconds_before

    def seconds(self) -> float:
        """Returns all seconds until now."""
        return time.monotonic() - self.start


class TrainingMeter:
    """Averages loss and gradient norm over the updates between two readings, also across an interruption.

    The values stay on the device until they are read, since reading waits for it.
    """

    def __init__(self) -> None:
        self.pending: list[TrainStepMetrics] = []
        self.last: dict[str, float] = {}
        self.read_at: float | None = None

    def restore(self, progress: Progress) -> None:
        """Takes over the last reading, and the updates since then that an interruption left unread."""
        self.pending = [TrainStepMetrics(*values) for values in progress.unread]
        self.last = dict(progress.last_logs)

    def save_to(self, progress: Progress) -> None:
        """Stores in `progress` what `restore` needs."""
        progress.unread = [[float(value) for value in metrics] for metrics in self.pending]
        progress.last_logs = self.last

    def add(self, metrics: TrainStepMetrics) -> None:
        """Adds the metrics of an update."""
        self.pending.append(metrics)

    def wait(self) -> None:
        """Waits until the device has made all updates."""
        if self.pending:
            float(self.pending[-1].loss)

    def read(self, seconds: float) -> dict[str, float]:
        """Averages the updates since the last reading; without any, returns the last reading again.

        Args:
            seconds: time spent in training.

        Returns:
            `loss` per target token; `gradient_norm`, the root of the mean square; and `tokens_per_second`, target
            tokens, from the second reading of a session on.
        """
        if self.pending:
            tokens = sum(float(metrics.tokens) for metrics in self.pending)
            squares = sum(float(metrics.gradient_norm) ** 2 for metrics in self.pending)
            self.last = {
                "loss": sum(float(metrics.loss) for metrics in self.pending) / max(tokens, 1),
                "gradient_norm": math.sqrt(squares / len(self.pending)),
            }
            if self.read_at is not None and seconds > self.read_at:
                self.last["tokens_per_second"] = tokens / (seconds - self.read_at)
            self.pending = []
        self.read_at = seconds
        return self.last

    def leave_out(self, seconds: float) -> None:
        """Leaves the time of a validation out of the measurement of speed."""
        if self.read_at is not None:
            self.read_at += seconds

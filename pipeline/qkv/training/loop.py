"""The training loop: the same for one device and for many, and able to continue from any update.

It drives standard `keras.callbacks.Callback` objects. `on_train_batch_end` receives logs every `log_every` updates and
none in between; `on_test_end` receives the row of a validation. Both have the number of updates under `update`.
`on_epoch_end` receives the last validation's row, nothing before the first.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import keras

from ..config.names.translation import rank
from ..errors import InputError
from .accumulation import Updates
from .batches import TrainingBatches
from .checkpoints import Checkpoints
from .progress import Progress
from .step import TrainStep, TrainStepMetrics
from .stopping import INTERRUPTED, StoppingRules
from .time_budget import MeasuredTotal
from .validation import is_due


class TrainingClock:
    """Measures the seconds spent in training, without interruptions of the run.

    Args:
        seconds_before: the seconds of earlier sessions.
    """

    def __init__(self, seconds_before: float) -> None:
        self.start = time.monotonic() - seconds_before

    def seconds(self) -> float:
        """Returns all seconds until now."""
        return time.monotonic() - self.start


class TrainingMeter:
    """Averages loss and gradient norm over the updates between two readings, also across an interruption.

    The values stay on the device until they are read, since reading waits for it.

    Args:
        progress: holds the last reading, and the updates since then that an interruption left unread.
    """

    def __init__(self, progress: Progress) -> None:
        self.pending = [TrainStepMetrics(*values) for values in progress.unread]
        self.last = dict(progress.last_logs)
        self.read_at: float | None = None

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

    def save_to(self, progress: Progress) -> None:
        """Stores in `progress` the data that a meter needs to continue."""
        progress.unread = [[float(value) for value in metrics] for metrics in self.pending]
        progress.last_logs = self.last


@dataclass
class Session:
    """The loop from its start to its end or interruption.

    Args:
        progress: of the whole run.
        events: the callbacks.
        clock: measures the time of training.
        meter: averages the updates since the last logs.
        updates: makes them.
        saved_at: seconds of training at the last checkpoint.
    """

    progress: Progress
    events: keras.callbacks.CallbackList
    clock: TrainingClock
    meter: TrainingMeter
    updates: Updates
    saved_at: float

    def rehearse_callbacks(self) -> None:
        """Calls `rehearse` of callbacks that have it: it takes as long as their `on_test_end`, and leaves nothing."""
        for callback in self.events.callbacks:
            if hasattr(callback, "rehearse"):
                callback.rehearse()

    def seconds(self) -> float:
        """Waits for the device and returns the seconds of training."""
        self.meter.wait()
        return self.clock.seconds()


class Training:
    """Trains until a rule ends training, with validations and checkpoints in between.

    Args:
        model: any `TranslationModel`.
        optimizer: the optimizer of the model.
        step: updates the model with that optimizer.
        batches: the batches of every epoch.
        validate: returns the metrics of the model as it is: `val_loss`, `val_bleu` and others.
        checkpoints: where the state is saved; None for a worker that writes nothing.
        stopping: the rules that decide when training ends.
        validate_every_updates: updates between two validations, each with a checkpoint; see `is_due`.
        log_every_updates: updates between two logs.
        checkpoint_every_minutes: minutes of training without a checkpoint after which an interim one is saved; None
            for never.
        metric: the validation metric by which the best checkpoint is chosen, without `val_`.
        measured_total: fixes the total of updates while training runs; None if it is known or not limited.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        step: TrainStep,
        batches: TrainingBatches,
        validate: Callable[[], dict[str, float]],
        checkpoints: Checkpoints | None,
        *,
        stopping: StoppingRules,
        validate_every_updates: int | None,
        log_every_updates: int,
        checkpoint_every_minutes: float | None = None,
        metric: str,
        measured_total: MeasuredTotal | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.batches = batches
        self.validate = validate
        self.checkpoints = checkpoints
        self.stopping = stopping
        self.validate_every_updates = validate_every_updates
        self.log_every_updates = log_every_updates
        self.checkpoint_every_minutes = checkpoint_every_minutes
        self.metric = metric
        self.measured_total = measured_total
        self.callback_params: dict[str, Any] = {}  # what callbacks find as their `params`

    def run(self, progress: Progress, callbacks: Sequence[keras.callbacks.Callback] = ()) -> str:
        """Trains from `progress` on, which it keeps up to date, and returns why training ended.

        Raises:
            InputError: the loss is no longer finite, or a batch does not fit into memory.
        """
        self.model.stop_training = False
        events = keras.callbacks.CallbackList(list(callbacks), model=self.model, **self.callback_params)
        clock = TrainingClock(progress.seconds)
        updates = Updates(self.model, self.step)
        updates.restore(progress)
        session = Session(progress, events, clock, TrainingMeter(progress), updates, saved_at=progress.seconds)
        if self.measured_total is not None:
            self.measured_total.start(progress)
        with self.stopping.obeying_signals():
            events.on_train_begin()
            reason = self.stopping.reason(progress, clock.seconds())
            while reason is None:
                reason = self._train_epoch(session)
            if not progress.history or progress.history[-1]["update"] != progress.update:
                if reason == INTERRUPTED:  # no validation: the resumed run must equal one without the interruption
                    self._save_interim(session)
                else:
                    self._validate(session)
            events.on_train_end()
        return reason

    def _train_epoch(self, session: Session) -> str | None:
        """Trains to the end of the epoch, or until there is a reason to stop, which it returns."""
        progress, events = session.progress, session.events
        events.on_epoch_begin(progress.epoch)
        plan = self.batches.plan(progress.epoch)
        batches = self.batches.epoch(progress.epoch, progress.batch)
        while group := list(islice(batches, self.batches.accumulated)):
            events.on_train_batch_begin(progress.update)
            session.meter.add(session.updates.make(group, progress))
            progress.update += 1
            progress.batch += len(group)
            if plan.is_end(progress.batch):
                progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.seconds = session.clock.seconds()
            logs = self._read_logs(session) if progress.update % self.log_every_updates == 0 else {}
            events.on_train_batch_end(progress.update - 1, logs)
            if not self._knows_total(progress):
                self._measure_total(session)
            total = progress.total_updates or self.stopping.limits.max_updates
            if self._knows_total(progress) and is_due(progress.update, self.validate_every_updates, total):
                self._validate(session)
            elif self._is_interim_due(session):
                self._save_interim(session)
            if reason := self.stopping.reason(progress, session.clock.seconds(), self.model.stop_training):
                return reason
        events.on_epoch_end(progress.epoch - 1, progress.history[-1] if progress.history else {})
        return None

    def _knows_total(self, progress: Progress) -> bool:
        return self.measured_total is None or progress.total_updates is not None

    def _measure_total(self, session: Session) -> None:
        """Fixes the total of updates once enough of them are measured, and saves it."""
        progress, measured_total = session.progress, self.measured_total
        assert measured_total is not None
        if not measured_total.is_ready(progress, session.seconds):
            return
        interrupted = started = session.clock.seconds()
        for _ in range(2 if self.stopping.agreement.chief else 0):  # the first one traces its graphs
            started = session.clock.seconds()
            self.validate()
            session.rehearse_callbacks()
        progress.seconds = session.clock.seconds()
        measured_total.fix(progress, progress.seconds, progress.seconds - started)
        session.meter.leave_out(progress.seconds - interrupted)
        self._save_interim(session)

    def _read_logs(self, session: Session) -> dict[str, float]:
        progress = session.progress
        logs = session.meter.read(progress.seconds)
        check_finite(progress.update, logs)
        place = {"update": progress.update, "epoch": progress.epoch, "minutes": progress.seconds / 60}
        rate = keras.ops.convert_to_numpy(self.optimizer.learning_rate)
        return {**place, **logs, "learning_rate": float(rate), **session.updates.logs()}

    def _validate(self, session: Session) -> None:
        progress = session.progress
        session.events.on_test_begin()
        logs = self._read_logs(session)
        logs.update(self.stopping.agreement.by_chief(self.validate, "to validate"))
        best = self._note_metric(progress, logs)
        interrupted, progress.seconds = progress.seconds, session.clock.seconds()
        session.meter.leave_out(progress.seconds - interrupted)
        progress.history.append(logs)
        # Before the checkpoint is written: if the process dies in between, the resumed run repeats the callbacks.
        session.events.on_test_end(logs)
        self._note_saving(session)
        if self.checkpoints is not None:
            self.checkpoints.save(self.model, self.optimizer, progress, best)

    def _is_interim_due(self, session: Session) -> bool:
        minutes = self.checkpoint_every_minutes
        return minutes is not None and session.clock.seconds() - session.saved_at >= 60 * minutes

    def _save_interim(self, session: Session) -> None:
        self._note_saving(session)
        # A run without its total starts anew, so that the total is fixed at the same update as without interruption.
        if self.checkpoints is not None and self._knows_total(session.progress):
            self.checkpoints.save_interim(self.model, self.optimizer, session.progress)

    def _note_saving(self, session: Session) -> None:
        session.meter.save_to(session.progress)
        session.updates.save_to(session.progress)
        session.saved_at = session.progress.seconds

    def _note_metric(self, progress: Progress, logs: dict[str, float]) -> bool:
        """Updates the best value so far, and returns whether this validation has it; the loss breaks ties."""
        best = not progress.history or rank(self.metric, logs) < rank(self.metric, progress.best_validation)
        if best:
            progress.best_metric, progress.best_update = logs[f"val_{self.metric}"], progress.update
        progress.validations_without_gain = 0 if best else progress.validations_without_gain + 1
        return best


def check_finite(update: int, logs: dict[str, float]) -> None:
    """Checks the means of the last updates.

    Raises:
        InputError: one is not finite.
    """
    if not all(math.isfinite(value) for value in logs.values()):
        raise InputError(
            f"update {update}: training has diverged and is stopped: expected a finite loss and gradient, "
            f"found a loss of {logs['loss']:g} and a gradient norm of {logs['gradient_norm']:g}; lower "
            "training.learning_rate, raise training.warmup_updates, or set training.precision to float32. The "
            "checkpoints of earlier updates are intact"
        )

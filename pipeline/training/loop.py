"""The training loop: the same for one device and for many, and able to go on from any update.

It drives standard `keras.callbacks.Callback` objects. `on_train_batch_end` gets logs every `log_every` updates and
nothing in between, `on_test_end` the row of a validation; both have the number of updates under `update`.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

import keras
import tensorflow as tf

from ..errors import InputError
from .checkpoint import LOWER_IS_BETTER, Progress
from .checkpoint_folder import Checkpoints
from .input import TrainingBatches
from .optimizers import averaged_weights
from .step import TrainStep, TrainStepMetrics

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Limits:
    """Training ends at the first of these that is reached; None for no limit."""

    updates: int | None = None
    epochs: int | None = None
    minutes: float | None = None


class Training:
    """Trains until a limit, early stopping, or somebody asks it to stop.

    Args:
        model: anything with the surface of `pipeline.model.interface`.
        optimizer: the model's.
        update: of that model by that optimizer.
        batches: what to train on.
        validate: returns the metrics of the model as it is: `val_loss`, `val_bleu` and others.
        checkpoints: where the state is kept; None for a worker that writes nothing.
        limits: when to end.
        validate_every: updates from a validation and checkpoint to the next.
        log_every: updates from one line of logs to the next.
        save_every: seconds of training without a checkpoint after which one is written between validations; None for
            never.
        metric: which validation metric says which checkpoint is best, without `val_`.
        patience: validations without gain before training stops; None for no limit.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        update: TrainStep,
        batches: TrainingBatches,
        validate: Callable[[], dict[str, float]],
        checkpoints: Checkpoints | None,
        *,
        limits: Limits,
        validate_every: int,
        log_every: int,
        save_every: float | None = None,
        metric: str,
        patience: int | None = None,
    ) -> None:
        self.model = model
        self.model.stop_training = False
        self.optimizer = optimizer
        self.update = update
        self.batches = batches
        self.validate = validate
        self.checkpoints = checkpoints
        self.limits = limits
        self.validate_every = validate_every
        self.log_every = log_every
        self.save_every = save_every
        self.saved = 0.0
        self.metric = metric
        self.patience = patience
        self.asked_to_stop = False

        @tf.function(autograph=False)
        def sum_over_replicas(values):
            strategy = batches.strategy
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

        self._sum_over_replicas = sum_over_replicas

    def run(self, progress: Progress, callbacks: Sequence[keras.callbacks.Callback] = ()) -> str:
        """Goes on from `progress`, which it keeps up to date, and says why it ended."""
        self.model.stop_training = False
        events = keras.callbacks.CallbackList(list(callbacks), model=self.model)
        clock = _Clock(progress.seconds)
        self.saved = progress.seconds
        meter = _Meter(progress)
        with self._polite_to_signals():
            events.on_train_begin()
            reason = self._finished(progress, clock.seconds())
            while reason is None:
                reason = self._epoch(progress, events, clock, meter)
            if not progress.history or progress.history[-1]["update"] != progress.update:
                if reason == INTERRUPTED:  # nothing that a run without the interruption would not have done
                    self._save_interim(progress, meter)
                else:
                    self._validate(progress, events, clock, meter)
            events.on_train_end()
        return reason

    def _epoch(self, progress: Progress, events, clock: "_Clock", meter: "_Meter") -> str | None:
        events.on_epoch_begin(progress.epoch)
        number = len(self.batches.plan(progress.epoch).batches)
        batches = self.batches.epoch(progress.epoch, progress.batch)
        while group := list(islice(batches, self.batches.accumulated)):
            events.on_train_batch_begin(progress.update)
            meter.add(self._update(group, progress.update + 1))
            progress.update += 1
            progress.batch += len(group)
            if progress.batch == number:
                progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.seconds = clock.seconds()
            logs = self._logs(progress, meter) if progress.update % self.log_every == 0 else {}
            events.on_train_batch_end(progress.update - 1, logs)
            if progress.update % self.validate_every == 0:
                self._validate(progress, events, clock, meter)
            elif self.save_every is not None and clock.seconds() - self.saved >= self.save_every:
                self._save_interim(progress, meter)
            reason = self._finished(progress, clock.seconds())
            if reason:
                return reason
        events.on_epoch_end(progress.epoch - 1, progress.history[-1] if progress.history else {})
        return None

    def _update(self, group: Sequence[Any], number: int) -> TrainStepMetrics:
        *others, last = group
        try:
            for batch in others:
                self.update.accumulate(batch)
            return self.update(last)
        except tf.errors.ResourceExhaustedError:
            shapes = ", ".join(str(tuple(x.shape)) for x in last if hasattr(x, "shape"))
            raise InputError(
                f"update {number}: no memory left for a batch of shapes {shapes}; lower batches.batch_tokens and raise "
                "batches.accumulated, or lower data.max_source_tokens and data.max_target_tokens"
            ) from None

    def _logs(self, progress: Progress, meter: "_Meter") -> dict[str, float]:
        rate = keras.ops.convert_to_numpy(self.optimizer.learning_rate)
        logs = meter.read(progress.seconds)
        if not all(math.isfinite(value) for value in logs.values()):
            raise InputError(
                f"update {progress.update}: the loss is {logs['loss']:g} and the gradient's norm "
                f"{logs['gradient_norm']:g}: training has diverged and is stopped; lower training.learning_rate, warm "
                "up for longer, or take precision: float32. The checkpoints are those of the updates before"
            )
        place = {"update": progress.update, "epoch": progress.epoch, "minutes": progress.seconds / 60}
        return {**place, **logs, "learning_rate": float(rate)}

    def _validate(self, progress: Progress, events, clock: "_Clock", meter: "_Meter") -> None:
        events.on_test_begin()
        logs = self._logs(progress, meter)
        with averaged_weights(self.model, self.optimizer):
            logs.update(self.validate())
            best = self._judge(progress, logs[f"val_{self.metric}"])
            progress.seconds = clock.seconds()
            meter.restart(progress.seconds)
            progress.history.append(logs)
            # Told first: of a run killed in between it is told again, and what was told too early is forgotten.
            events.on_test_end(logs)
        self._note(progress, meter)
        if self.checkpoints is not None:
            self.checkpoints.save(self.model, self.optimizer, progress, best)

    def _save_interim(self, progress: Progress, meter: "_Meter") -> None:
        """Keeps the state between validations."""
        self._note(progress, meter)
        if self.checkpoints is not None:
            self.checkpoints.save_interim(self.model, self.optimizer, progress)

    def _note(self, progress: Progress, meter: "_Meter") -> None:
        """Brings up to date what a checkpoint holds besides the model."""
        progress.unread, progress.last_logs = meter.unread(), meter.last
        self.saved = progress.seconds

    def _judge(self, progress: Progress, value: float) -> bool:
        """Whether this is the best model so far."""
        better = progress.best_metric is None or is_better(self.metric, value, progress.best_metric)
        if better:
            progress.best_metric, progress.best_update = value, progress.update
        progress.validations_without_gain = 0 if better else progress.validations_without_gain + 1
        return better

    def finished(self, progress: Progress) -> str | None:
        """Why there is nothing to do any more, or None."""
        return self._finished(progress, progress.seconds)

    def _finished(self, progress: Progress, seconds: float) -> str | None:
        limits = self.limits
        if limits.updates is not None and progress.update >= limits.updates:
            return f"{limits.updates} updates"
        if limits.epochs is not None and progress.epoch >= limits.epochs:
            return f"{limits.epochs} epochs"
        if self.patience is not None and progress.validations_without_gain >= self.patience:
            return f"{self.patience} validations without a better {self.metric}"
        asked = {
            INTERRUPTED: self.asked_to_stop,
            "a callback stopped it": self.model.stop_training,
            f"{limits.minutes or 0:g} minutes": limits.minutes is not None and seconds >= 60 * limits.minutes,
        }
        if self.batches.strategy.num_replicas_in_sync > 1:
            # Workers must end at the same update, and these differ between them. Asking waits for the device.
            votes = self._votes(list(asked.values())) if progress.update % self.log_every == 0 else [False] * len(asked)
            asked = dict(zip(asked, votes, strict=True))
        return next((reason for reason, holds in asked.items() if holds), None)

    def _votes(self, own: list[bool]) -> list[bool]:
        """Of each reason to stop, whether any worker has it."""
        return [bool(votes) for votes in self._sum_over_replicas(tf.constant(own, tf.float32)).numpy()]

    @contextmanager
    def _polite_to_signals(self) -> Iterator[None]:
        """Ends after the update at hand on Ctrl-C or when the system asks; a second Ctrl-C ends at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.asked_to_stop:
                raise KeyboardInterrupt
            self.asked_to_stop = True

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: signals are somebody else's
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a validation metric says that one model is better than another."""
    return value < than if metric in LOWER_IS_BETTER else value > than


class _Clock:
    """Seconds of training, over all the times that it was interrupted."""

    def __init__(self, before: float) -> None:
        self.start = time.monotonic() - before

    def seconds(self) -> float:
        return time.monotonic() - self.start


class _Meter:
    """Sums of logs since they were last read, also before an interruption. They stay on the device until then."""

    def __init__(self, progress: Progress) -> None:
        self.logs = [TrainStepMetrics(*logs) for logs in progress.unread]
        self.since: float | None = None
        self.last = dict(progress.last_logs)

    def add(self, logs: TrainStepMetrics) -> None:
        self.logs.append(logs)

    def read(self, seconds: float) -> dict[str, float]:
        if self.logs:
            tokens = sum(float(logs.tokens) for logs in self.logs)
            self.last = {
                "loss": sum(float(logs.loss) for logs in self.logs) / max(tokens, 1),
                "gradient_norm": math.sqrt(sum(float(logs.gradient_norm) ** 2 for logs in self.logs) / len(self.logs)),
            }
            if self.since is not None and seconds > self.since:
                self.last["tokens_per_second"] = tokens / (seconds - self.since)
            self.logs = []
        self.since = seconds
        return self.last

    def unread(self) -> list[list[float]]:
        """What was added since, as numbers."""
        return [[float(value) for value in logs] for logs in self.logs]

    def restart(self, seconds: float) -> None:
        """Leaves the time of a validation out of the speed."""
        self.since = seconds

"""The training loop: the same for one device and for many, and able to continue from any update.

It drives standard `keras.callbacks.Callback` objects. `on_train_batch_end` receives logs every `log_every` updates and
none in between; `on_test_end` receives the row of a validation. Both have the number of updates under `update`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import keras
import tensorflow as tf

from ..config.names import is_better
from ..errors import InputError
from ..text.batches import Batch
from .checkpoint import Progress
from .checkpoint_folder import Checkpoints
from .input import TrainingBatches
from .meter import TrainingClock, TrainingMeter
from .optimizers import averaged_weights
from .step import TrainStep, TrainStepMetrics
from .stopping import INTERRUPTED, StoppingRules


@dataclass
class _Session:
    """The loop from its start to its end or interruption.

    Args:
        progress: of the whole run.
        events: the callbacks.
        clock: measures the time of training.
        meter: averages the updates since the last logs.
        saved_at: seconds of training at the last checkpoint.
    """

    progress: Progress
    events: keras.callbacks.CallbackList
    clock: TrainingClock
    meter: TrainingMeter
    saved_at: float


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
        validate_every: updates between two validations, each with a checkpoint.
        log_every: updates between two logs.
        save_every: seconds of training without a checkpoint after which an interim one is saved; None for never.
        metric: the validation metric by which the best checkpoint is chosen, without `val_`.
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
        validate_every: int,
        log_every: int,
        save_every: float | None = None,
        metric: str,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.batches = batches
        self.validate = validate
        self.checkpoints = checkpoints
        self.stopping = stopping
        self.validate_every = validate_every
        self.log_every = log_every
        self.save_every = save_every
        self.metric = metric

    def run(self, progress: Progress, callbacks: Sequence[keras.callbacks.Callback] = ()) -> str:
        """Trains from `progress` on, which it keeps up to date.

        Returns:
            Why training ended.

        Raises:
            InputError: the loss is no longer finite, or a batch does not fit into memory.
        """
        self.model.stop_training = False
        events = keras.callbacks.CallbackList(list(callbacks), model=self.model)
        clock, meter = TrainingClock(progress.seconds), TrainingMeter(progress)
        session = _Session(progress, events, clock, meter, saved_at=progress.seconds)
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

    def _train_epoch(self, session: _Session) -> str | None:
        """Trains to the end of the epoch, or until there is a reason to stop, which it returns."""
        progress, events = session.progress, session.events
        events.on_epoch_begin(progress.epoch)
        epoch_batches = len(self.batches.plan(progress.epoch).batches)
        batches = self.batches.epoch(progress.epoch, progress.batch)
        while group := list(islice(batches, self.batches.accumulated)):
            events.on_train_batch_begin(progress.update)
            session.meter.add(self._update(group, progress.update + 1))
            progress.update += 1
            progress.batch += len(group)
            if progress.batch == epoch_batches:
                progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.seconds = session.clock.seconds()
            logs = self._read_logs(session) if progress.update % self.log_every == 0 else {}
            events.on_train_batch_end(progress.update - 1, logs)
            if progress.update % self.validate_every == 0:
                self._validate(session)
            elif self.save_every is not None and session.clock.seconds() - session.saved_at >= self.save_every:
                self._save_interim(session)
            reason = self.stopping.reason(progress, session.clock.seconds(), self.model.stop_training)
            if reason:
                return reason
        events.on_epoch_end(progress.epoch - 1, progress.history[-1] if progress.history else {})
        return None

    def _update(self, group: Sequence[Batch], number: int) -> TrainStepMetrics:
        *others, last = group
        try:
            for batch in others:
                self.step.accumulate(batch)
            return self.step(last)
        except tf.errors.ResourceExhaustedError:
            shapes = ", ".join(str(tuple(x.shape)) for x in last if x is not None and hasattr(x, "shape"))
            raise InputError(
                f"update {number}: a batch of shapes {shapes} does not fit into memory; lower batches.batch_tokens and "
                "raise batches.accumulated, or lower data.max_source_tokens and data.max_target_tokens"
            ) from None

    def _read_logs(self, session: _Session) -> dict[str, float]:
        progress = session.progress
        logs = session.meter.read(progress.seconds)
        if not all(math.isfinite(value) for value in logs.values()):
            raise InputError(
                f"update {progress.update}: training has diverged and is stopped: expected a finite loss and gradient, "
                f"found a loss of {logs['loss']:g} and a gradient norm of {logs['gradient_norm']:g}; lower "
                "training.learning_rate, raise training.warmup_updates, or set training.precision to float32. The "
                "checkpoints of earlier updates are intact"
            )
        place = {"update": progress.update, "epoch": progress.epoch, "minutes": progress.seconds / 60}
        rate = keras.ops.convert_to_numpy(self.optimizer.learning_rate)
        return {**place, **logs, "learning_rate": float(rate)}

    def _validate(self, session: _Session) -> None:
        progress = session.progress
        session.events.on_test_begin()
        logs = self._read_logs(session)
        with averaged_weights(self.model, self.optimizer):
            logs.update(self.validate())
            best = self._note_metric(progress, logs[f"val_{self.metric}"])
            progress.seconds = session.clock.seconds()
            session.meter.leave_out_time_until(progress.seconds)
            progress.history.append(logs)
            # Before the checkpoint is written: if the process dies in between, the resumed run repeats the callbacks.
            session.events.on_test_end(logs)
        self._note_saving(session)
        if self.checkpoints is not None:
            self.checkpoints.save(self.model, self.optimizer, progress, best)

    def _save_interim(self, session: _Session) -> None:
        self._note_saving(session)
        if self.checkpoints is not None:
            self.checkpoints.save_interim(self.model, self.optimizer, session.progress)

    def _note_saving(self, session: _Session) -> None:
        session.meter.save_to(session.progress)
        session.saved_at = session.progress.seconds

    def _note_metric(self, progress: Progress, value: float) -> bool:
        """Updates the best value so far, and returns whether this one is it."""
        best = progress.best_metric is None or is_better(self.metric, value, progress.best_metric)
        if best:
            progress.best_metric, progress.best_update = value, progress.update
        progress.validations_without_gain = 0 if best else progress.validations_without_gain + 1
        return best

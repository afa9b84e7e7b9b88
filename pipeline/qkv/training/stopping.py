"""The rules that end training, and advice on a training that has ended.

Training ends at a limit, after validations without a gain, after a signal, if a callback requests it, or if the loss is
not finite.
"""

import math
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from types import FrameType
from typing import NamedTuple

from ..errors import InputError
from .progress import Progress
from .worker_checks import WorkerVotes

INTERRUPTED = "interrupted"
SECONDS_BETWEEN_VOTES = 2.0  # of several workers
MOST_UPDATES_BETWEEN_VOTES = 1000


@dataclass(frozen=True)
class Limits:
    """The limits of a training, which ends at the first limit that is reached.

    Args:
        max_updates: the maximum number of updates; None for no limit.
        max_epochs: the maximum number of passes over the training text; None for no limit.
        max_minutes: the maximum time of training in minutes; None for no limit.
        measured: True if training ends at `Progress.total_updates`, which is estimated so that training takes
            `max_minutes`; False if it ends at `max_minutes` themselves.
        ends_at_zero: True if the learning rate is zero at `max_updates`.
    """

    max_updates: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None
    measured: bool = False
    ends_at_zero: bool = False


class Ending(NamedTuple):
    """A rule that has ended a training, and the option for training longer.

    - reason: the rule in a few words, such as `5 updates`.
    - because: a clause that explains the end, such as `training.max_updates (5) has ended it`.
    - option: the option with the value for a longer training, such as `--training.max_updates 10`.
    - resumes: True if the run continues with that option; False if a new run is needed.
    """

    reason: str
    because: str
    option: str
    resumes: bool = True


def _ended_by(reason: str, setting: str, value: float) -> Ending:
    """Returns the ending by a limit, with the option that doubles it. `setting` is a key in the section `training`."""
    because = f"training.{setting} ({value:.10g}) has ended it"
    return Ending(reason, because, f"--training.{setting} {2 * value:.10g}")


@dataclass
class StoppingRules:
    """The rules that decide after each update whether training ends.

    Args:
        limits: the limits of the training.
        metric: the validation metric, without `val_`, for early stopping and for the choice of the best checkpoint.
        patience: number of validations in a row without a better metric after which training ends; None for no early
            stopping.
        votes: the votes of the workers. All workers end at the same update.

    Attributes:
        interrupted: True after a signal, see `obeying_signals`.
    """

    limits: Limits
    metric: str
    patience: int | None = None
    _: KW_ONLY
    votes: WorkerVotes
    interrupted: bool = field(default=False, init=False)
    _last_vote: tuple[int, float] | None = field(default=None, init=False)  # the update, and the time in seconds
    _next_vote: int = field(default=0, init=False)  # the update

    def ending(self, progress: Progress, seconds: float) -> Ending | None:
        """Returns the rule by which training ends now; None if training can continue.

        Signals and callbacks, which can end training too, are not considered.

        Args:
            progress: the progress of the run.
            seconds: the seconds spent in training.
        """
        return self._counted_ending(progress) or self._timed_ending(seconds)

    def _counted_ending(self, progress: Progress) -> Ending | None:
        """Returns the ending by a number of updates, epochs or validations; None if no such limit is reached.

        These numbers are equal on all workers.
        """
        limits = self.limits
        minutes = limits.max_minutes or 0
        if progress.total_updates is not None and progress.update >= progress.total_updates:
            return Ending(
                f"{progress.total_updates} updates, as many as fitted into {minutes:g} minutes",
                f"its {progress.update} updates filled {minutes:g} minutes (training.max_minutes), and its learning "
                "rate has ended with them",
                f"--training.max_minutes {2 * minutes:g}",
                resumes=False,
            )
        if limits.max_updates is not None and progress.update >= limits.max_updates:
            ending = _ended_by(f"{limits.max_updates} updates", "max_updates", limits.max_updates)
            if not limits.ends_at_zero:
                return ending
            because = f"{ending.because}, and its learning rate is zero there, so that no other limit makes it longer"
            return ending._replace(because=because, resumes=False)
        if limits.max_epochs is not None and progress.epoch >= limits.max_epochs:
            return _ended_by(f"{limits.max_epochs} epochs", "max_epochs", limits.max_epochs)
        if self.patience is not None and progress.validations_without_gain >= self.patience:
            reason = f"{self.patience} validations without a better {self.metric}"
            return _ended_by(reason, "early_stopping.patience", self.patience)._replace(resumes=False)
        return None

    def _timed_ending(self, seconds: float) -> Ending | None:
        minutes = self.limits.max_minutes
        if minutes is None or self.limits.measured or seconds < 60 * minutes:
            return None
        return _ended_by(f"{minutes:g} minutes", "max_minutes", minutes)

    def reason(self, progress: Progress, seconds: float, asked_by_callback: bool = False) -> str | None:
        """Returns the reason why training ends after the last update; None if it continues.

        With several workers, call it on every worker after every update.

        Args:
            progress: the progress of the run.
            seconds: the seconds spent in training.
            asked_by_callback: True if a callback has set `model.stop_training`.
        """
        if ending := self._counted_ending(progress):
            return ending.reason
        # These may differ between workers. Only the clock of the chief counts.
        reasons = {
            INTERRUPTED: self.interrupted,
            "a callback stopped it": asked_by_callback,
            f"{self.limits.max_minutes or 0:g} minutes": self.votes.is_chief and bool(self._timed_ending(seconds)),
        }
        if not self.votes.alone:
            if progress.update < self._next_vote:
                return None
            reasons = self._vote(progress.update, reasons)
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _vote(self, update: int, reasons: Mapping[str, bool]) -> dict[str, bool]:
        """Returns for each reason whether it holds on at least one worker, and sets the update of the next vote.

        Votes are `SECONDS_BETWEEN_VOTES` apart at the speed of the chief. More votes would cost time, since each waits
        for the device. With fewer votes, a signal would wait longer.

        Args:
            update: number of updates made.
            reasons: whether each reason holds on this worker.
        """
        now = time.monotonic()
        gap = 1
        if self._last_vote is not None:
            last_update, last_time = self._last_vote
            if update > last_update:
                gap = round(SECONDS_BETWEEN_VOTES * (update - last_update) / max(now - last_time, 1e-6))
        self._last_vote = update, now
        gap = min(max(gap, 1), MOST_UPDATES_BETWEEN_VOTES)
        # The sum over all replicas of the chief's gap, divided by the number of its replicas, is the gap.
        gap_and_chief = [float(gap), 1.0] if self.votes.is_chief else [0.0, 0.0]
        *votes, gaps, chiefs = self.votes.sums([*(float(holds) for holds in reasons.values()), *gap_and_chief])
        self._next_vote = update + round(gaps / chiefs)
        return {reason: total > 0 for reason, total in zip(reasons, votes, strict=True)}

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Sets `interrupted` on Ctrl-C or SIGTERM within the block, so that training ends after the current update.

        Outside the main thread, where Python cannot handle signals, it does nothing.

        Raises:
            KeyboardInterrupt: a second signal arrives.
        """

        def interrupt(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        try:
            previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # Python handles signals in the main thread only
            previous = {}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def check_finite(update: int, logs: Mapping[str, float]) -> None:
    """Checks that the means of the last updates are finite.

    Args:
        update: number of updates made.
        logs: the means, with `loss` and `gradient_norm`.

    Raises:
        InputError: a mean is infinite or NaN.
    """
    if not all(math.isfinite(value) for value in logs.values()):
        raise InputError(
            f"update {update}: training has diverged: found a loss of {logs['loss']:g} and a gradient norm of "
            f"{logs['gradient_norm']:g}; lower training.learning_rate, raise training.warmup_updates, or set "
            "training.precision to float32. The checkpoints of earlier updates are intact"
        )


FEW_UPDATES = 300  # with fewer, even a small translator has hardly begun to learn


def training_advice(progress: Progress, warmup_updates: int, metric: str, patience: int | None = None) -> str | None:
    """Returns a line of advice if the result of a training that has ended may be poor; None otherwise.

    Args:
        progress: the progress of the run.
        warmup_updates: the number of updates of the warm-up.
        metric: the metric that chooses the best checkpoint, without `val_`.
        patience: the patience of early stopping; None without early stopping. With a patience, a first validation that
            was never surpassed is expected, and not reported.
    """
    updates = progress.update
    if progress.total_updates is None and updates <= warmup_updates:
        return (
            f"training has ended within its warm-up: {updates} updates of {warmup_updates}, so the learning rate never "
            "reached its peak; train longer, lower training.warmup_updates, or set training.max_minutes and "
            "training.schedule clock"
        )
    if updates < FEW_UPDATES:
        return (
            f"{updates} updates are few to learn from: train longer, or make updates faster by a smaller model "
            "(model.d_model, model.encoder_layers, model.decoder_layers) or smaller batches (batches.batch_tokens)"
        )
    if len(progress.history) == 1:
        return (
            "the model was validated only once, at the end, so there was no better checkpoint to choose: lower "
            "training.validate_every_updates"
        )
    if progress.best_update == progress.history[0]["update"] and patience is None:
        return (
            f"{metric} has not improved since the first validation, after {progress.best_update:.0f} updates: compare "
            "training and validation loss in history.csv; if validation loss rises, use more text, a smaller model or "
            "more model.dropout, and if neither falls, lower training.learning_rate"
        )
    return None

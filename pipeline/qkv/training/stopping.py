"""The rules that end training: a limit, no further gain, a loss that is not finite, a signal, or the request of a
callback; and how to lengthen a training that has ended."""

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
AGREE_SECONDS = 2.0  # between two votes of several workers
MOST_UPDATES_APART = 1000


@dataclass(frozen=True)
class Limits:
    """Training ends at the first of these that is reached; None for no limit.

    Args:
        max_updates: a number of updates.
        max_epochs: a number of passes over the training text.
        max_minutes: minutes of training.
        measured: whether training ends at `Progress.total_updates`, which is estimated for `max_minutes`, instead of
            at `max_minutes`.
        ends_at_zero: whether the learning rate is zero at `max_updates`.
    """

    max_updates: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None
    measured: bool = False
    ends_at_zero: bool = False


class Ending(NamedTuple):
    """A rule that has ended a training, and how to train longer.

    - reason: the rule in a few words.
    - because: what has ended the training, and what that means.
    - option: the option, with a value, that makes it longer.
    - resumes: whether the run continues with that option; otherwise a new run is needed.
    """

    reason: str
    because: str
    option: str
    resumes: bool = True


def _ended_by(reason: str, setting: str, value: float) -> Ending:
    """Returns the ending by a limit in `training`, with the advice to double it."""
    because = f"training.{setting} ({value:.10g}) has ended it"
    return Ending(reason, because, f"--training.{setting} {2 * value:.10g}")


@dataclass
class StoppingRules:
    """Decides after each update whether training ends, and says why.

    Args:
        limits: the longest that training may take.
        metric: the validation metric that early stopping watches and the best checkpoint is chosen by, without `val_`.
        patience: validations in a row without a better metric before training ends; None for no early stopping.
        votes: the votes of the workers, all of which end at the same update.
    """

    limits: Limits
    metric: str
    patience: int | None = None
    _: KW_ONLY
    votes: WorkerVotes
    interrupted: bool = field(default=False, init=False)
    _agreed_at: tuple[int, float] | None = field(default=None, init=False)
    _agree_at: int = field(default=0, init=False)

    def ending(self, progress: Progress, seconds: float) -> Ending | None:
        """Returns the first of the limits and rules that has ended training after so many seconds, or None."""
        return self._counted_ending(progress) or self._timed_ending(seconds)

    def _counted_ending(self, progress: Progress) -> Ending | None:
        """Returns an ending that is the same on all workers."""
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
        """Returns why training ends here, or None if it continues.

        Args:
            progress: how far the run has come.
            seconds: time spent in training.
            asked_by_callback: whether a callback has set `model.stop_training`.
        """
        if ending := self._counted_ending(progress):
            return ending.reason
        # Reasons that may differ between workers. Of their clocks, the chief's counts.
        reasons = {
            INTERRUPTED: self.interrupted,
            "a callback stopped it": asked_by_callback,
            f"{self.limits.max_minutes or 0:g} minutes": self.votes.is_chief and bool(self._timed_ending(seconds)),
        }
        if not self.votes.alone:
            if progress.update < self._agree_at:
                return None
            reasons = self._agree(progress.update, reasons)
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _agree(self, update: int, reasons: Mapping[str, bool]) -> dict[str, bool]:
        """Returns which of the reasons hold on any worker, and sets the update of the next vote.

        A vote waits for the device, and a signal waits for a vote.
        """
        now = time.monotonic()
        gap = 1
        if self._agreed_at is not None and update > (before := self._agreed_at[0]):
            gap = round(AGREE_SECONDS * (update - before) / max(now - self._agreed_at[1], 1e-6))
        self._agreed_at = update, now
        of_chief = [float(min(max(gap, 1), MOST_UPDATES_APART)), 1.0] if self.votes.is_chief else [0.0, 0.0]
        *votes, gaps, chiefs = self.votes.sums([*(float(holds) for holds in reasons.values()), *of_chief])
        self._agree_at = update + round(gaps / chiefs)
        return {reason: total > 0 for reason, total in zip(reasons, votes, strict=True)}

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Ends training after the update on Ctrl-C or SIGTERM within the block, and at once on a second signal."""

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
    """Checks the means of the last updates.

    Raises:
        InputError: one is not finite.
    """
    if not all(math.isfinite(value) for value in logs.values()):
        raise InputError(
            f"update {update}: training has diverged: found a loss of {logs['loss']:g} and a gradient norm of "
            f"{logs['gradient_norm']:g}; lower training.learning_rate, raise training.warmup_updates, or set "
            "training.precision to float32. The checkpoints of earlier updates are intact"
        )


FEW_UPDATES = 300  # with fewer, even a small translator has hardly begun to learn


def training_advice(progress: Progress, warmup_updates: int, metric: str, patience: int | None = None) -> str | None:
    """Returns why a training that has ended may be worth little and what to change, in one line; None if nothing
    seems wrong. Early stopping, with its `patience`, explains why the last validations brought no gain."""
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

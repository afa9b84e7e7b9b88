"""The rules that end training: a limit, no further gain, a signal, or the request of a callback; and how to lengthen a
training that has ended."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from .progress import Progress
from .workers import Agreement

INTERRUPTED = "interrupted"
AGREE_SECONDS = 2.0  # between two agreements of several workers
MOST_UPDATES_APART = 1000


@dataclass(frozen=True)
class Limits:
    """Training ends at the first of these that is reached; None for no limit.

    Args:
        max_updates: a number of updates.
        max_epochs: a number of passes over the training text.
        max_minutes: minutes of training.
        measured: whether training ends at `Progress.total_updates`, which is measured from `max_minutes`, instead of at
            `max_minutes`.
    """

    max_updates: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None
    measured: bool = False


class StoppingRules:
    """Decides after each update whether training ends, and says why.

    Args:
        limits: the longest that training may take.
        metric: the validation metric that early stopping watches, without `val_`.
        patience: validations in a row without a better metric before training ends; None for no early stopping.
        agreement: of the workers, all of which end at the same update.
    """

    def __init__(
        self,
        limits: Limits,
        metric: str,
        patience: int | None = None,
        *,
        agreement: Agreement,
    ) -> None:
        self.limits = limits
        self.metric = metric
        self.patience = patience
        self.agreement = agreement
        self.interrupted = False
        self._agreed_at: tuple[int, float] | None = None
        self._agree_at = 0

    def reason(self, progress: Progress, seconds: float, asked_by_callback: bool = False) -> str | None:
        """Returns why training ends here, or None if it continues.

        Args:
            progress: how far the run has come.
            seconds: time spent in training.
            asked_by_callback: whether a callback has set `model.stop_training`.
        """
        limits = self.limits
        if limits.max_updates is not None and progress.update >= limits.max_updates:
            return f"{limits.max_updates} updates"
        if progress.total_updates is not None and progress.update >= progress.total_updates:
            return f"{progress.total_updates} updates, as measured for {limits.max_minutes:g} minutes"
        if limits.max_epochs is not None and progress.epoch >= limits.max_epochs:
            return f"{limits.max_epochs} epochs"
        if self.patience is not None and progress.validations_without_gain >= self.patience:
            return f"{self.patience} validations without a better {self.metric}"
        # Reasons that may differ between workers. Of their clocks, the chief's counts.
        reasons = {
            INTERRUPTED: self.interrupted,
            "a callback stopped it": asked_by_callback,
            f"{limits.max_minutes or 0:g} minutes": limits.max_minutes is not None
            and not limits.measured
            and self.agreement.chief
            and seconds >= 60 * limits.max_minutes,
        }
        if not self.agreement.alone:
            if progress.update < self._agree_at:
                return None
            reasons = self._agree(progress.update, reasons)
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _agree(self, update: int, reasons: Mapping[str, bool]) -> dict[str, bool]:
        """Returns which of the reasons hold on any worker, and sets the update of the next agreement: an agreement
        waits for the device, and a signal waits for an agreement."""
        now, gap = time.monotonic(), 1
        if self._agreed_at is not None and update > (before := self._agreed_at[0]):
            gap = round(AGREE_SECONDS * (update - before) / max(now - self._agreed_at[1], 1e-6))
        self._agreed_at = update, now
        of_chief = [float(min(max(gap, 1), MOST_UPDATES_APART)), 1.0] if self.agreement.chief else [0.0, 0.0]
        *votes, gaps, chiefs = self.agreement.sums([*(float(holds) for holds in reasons.values()), *of_chief])
        self._agree_at = update + round(gaps / chiefs)
        return {reason: total > 0 for reason, total in zip(reasons, votes, strict=True)}

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Ends training after the current update on Ctrl-C or SIGTERM within the block, and at once on a second
        signal."""

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


FEW_UPDATES = 300  # with fewer, even a small translator has hardly begun to learn


def shortcoming(progress: Progress, warmup_updates: int, metric: str, patience: int | None = None) -> str | None:
    """Returns why a training that has ended may be worth little and what to change, in one line; None if nothing
    seems wrong.

    Args:
        progress: at the end of training.
        warmup_updates: number of updates over which the learning rate rises.
        metric: the validation metric by which the best checkpoint is chosen, without `val_`.
        patience: as in early stopping, which explains why the last validations brought no gain.
    """
    updates, validations = progress.update, len(progress.history)
    measured = progress.total_updates is not None
    if not measured and updates <= warmup_updates:
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
    if validations == 1:
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


@dataclass(frozen=True)
class Lengthening:
    """The way in which a training that has ended can be made longer.

    Args:
        because: what has ended it, and what that means.
        option: the option, with a value, that makes it longer.
        resumes: whether the run continues with that option; otherwise a new run is needed.
    """

    because: str
    option: str
    resumes: bool


def how_to_lengthen(progress: Progress, limits: Limits, patience: int | None, ends_at_zero: bool) -> Lengthening:
    """Returns what has ended a training, and how to train longer.

    Args:
        progress: at the end of training.
        limits: of this training.
        patience: number of validations without gain after which training stops; None for no limit.
        ends_at_zero: whether the learning rate is zero at `limits.max_updates`.
    """
    if progress.total_updates is not None and progress.update >= progress.total_updates:
        because = f"its {progress.update} updates were measured once for {limits.max_minutes:g} minutes (training."
        because += "max_minutes), and its learning rate has ended with them"
        return Lengthening(because, f"--training.max_minutes {2 * (limits.max_minutes or 0):g}", resumes=False)
    if limits.max_updates is not None and progress.update >= limits.max_updates:
        because = f"training.max_updates ({limits.max_updates}) has ended it"
        because += ", and its learning rate is zero there, so that no other limit makes it longer" * ends_at_zero
        return Lengthening(because, f"--training.max_updates {2 * limits.max_updates}", not ends_at_zero)
    if limits.max_epochs is not None and progress.epoch >= limits.max_epochs:
        because = f"training.max_epochs ({limits.max_epochs}) has ended it"
        return Lengthening(because, f"--training.max_epochs {2 * limits.max_epochs}", resumes=True)
    if patience is not None and progress.validations_without_gain >= patience:
        because = f"training.early_stopping.patience ({patience}) has ended it"
        return Lengthening(because, f"--training.early_stopping.patience {2 * patience}", resumes=False)
    because = f"training.max_minutes ({limits.max_minutes or 0:g}) has ended it"
    return Lengthening(because, f"--training.max_minutes {2 * (limits.max_minutes or 0):g}", resumes=True)

"""The rules that end training: a limit, no further gain, a signal, or the request of a callback."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from .checkpoint import Progress
from .worker_agreement import Agreement

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

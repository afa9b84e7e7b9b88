"""The number of updates of a training that is given minutes, estimated from the speed of its updates, first after some
twenty of them and again at each validation; and the updates after which the model is validated."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from ..runtime.workers import Workers
from .progress import Progress
from .schedule import ClockSchedule
from .stopping import Limits

VALIDATIONS = 10  # of a training whose total of updates is known
SKIPPED_UPDATES = 5  # the first ones of a session trace graphs and fill caches
MEASURED_UPDATES = 20
MEASURED_SHARE = 0.03  # of the minutes
MOST_MEASURED_SECONDS = 120.0
LATE = 1.25  # of the minutes: where training would take so long, the next validation comes at once
LATE_UPDATES = 3  # in a row; a single one may have traced a graph
ROOM = 0.05  # of the updates made: as many follow where the minutes are over, in which the learning rate falls


@dataclass
class TimeBudget:
    """Measures the speed of updates and sets `Progress.total_updates` and the schedule by it.

    Args:
        schedule: the learning rates, which end at the total.
        limits: the minutes that the total should fill, and the maximum numbers of updates and epochs.
        updates_per_epoch: number of updates of an epoch.
        validate_every: updates between two validations; None for `VALIDATIONS` of them.
        workers: all workers, which follow the chief's estimates.
        agree_every: the number of updates between two questions to the chief, whether the first total can be estimated
            and whether the training is late. 1 for a single process.
    """

    schedule: ClockSchedule
    limits: Limits
    _: KW_ONLY
    updates_per_epoch: int
    validate_every: int | None
    workers: Workers
    agree_every: int = 1

    def restore(self, progress: Progress) -> None:
        """Starts a session, with the learning rate of the totals that were estimated before."""
        self.first_update = progress.update + SKIPPED_UPDATES
        self.measured_from: tuple[int, float] | None = None
        self.last_seconds = progress.seconds
        self.late_updates = 0
        self.schedule.follow(progress.totals)

    def is_ready(self, progress: Progress, seconds: Callable[[], float]) -> bool:
        """Returns whether the first total can be estimated; to be called after every update.

        Args:
            progress: how far the run has come.
            seconds: waits for the device, and returns the time spent in training.
        """
        if self.measured_from is None:
            if progress.update < self.first_update:
                return False
            self.measured_from = progress.update, seconds()
        if progress.total_updates is not None or progress.update % self.agree_every:
            return False
        updates, lasted = self._measured(progress, seconds())
        ready = updates >= MEASURED_UPDATES and lasted >= self._enough_seconds
        return bool(self.workers.broadcast_from_chief(ready, "to measure its speed"))

    def estimate(self, progress: Progress, validation_began: float, validation_seconds: float, seconds: float) -> None:
        """Estimates the total, the first one or another after a validation.

        The last total stays if training has ended, or if this session has measured too few updates.

        Args:
            progress: how far the run has come; gets the total.
            validation_began: the time spent in training when the updates gave way to a validation.
            validation_seconds: the time that a validation takes.
            seconds: the time spent in training.
        """
        made, total = progress.update, progress.total_updates
        if made == total:
            return
        updates, lasted = self._measured(progress, validation_began)
        self.measured_from = made - updates, seconds - lasted  # leaves the validation out
        if total is None or self._is_enough(updates, lasted):
            seconds_left = 60 * (self.limits.max_minutes or 0) - seconds
            planned = VALIDATIONS - len(progress.history)
            pace = lasted / max(updates, 1)
            left = updates_within(seconds_left, pace, validation_seconds, self.validate_every, planned)
            # Where the minutes are over, the learning rate needs some updates to fall.
            room = made if total is None else min(math.ceil(ROOM * made), total - made)
            epochs = self.limits.max_epochs and self.limits.max_epochs * self.updates_per_epoch
            total = min(end for end in (made + max(left, room), self.limits.max_updates, epochs) if end is not None)
            self.measured_from = made, seconds
        progress.total_updates = int(self.workers.broadcast_from_chief(total, "to estimate its updates"))
        self.schedule.follow(progress.totals)

    @property
    def _enough_seconds(self) -> float:
        return min(60 * (self.limits.max_minutes or 0) * MEASURED_SHARE, MOST_MEASURED_SECONDS)

    def _is_enough(self, updates: int, lasted: float) -> bool:
        return updates >= MEASURED_UPDATES or lasted >= self._enough_seconds

    def _measured(self, progress: Progress, seconds: float) -> tuple[int, float]:
        """Returns how many updates are measured, and their seconds."""
        update, began = self.measured_from or (progress.update, seconds)
        return progress.update - update, seconds - began

    def is_validation_due(self, progress: Progress) -> bool:
        """Returns whether the model is validated after this update.

        With no number of updates between two validations, those left are spread evenly; one comes early if it is late.
        """
        if progress.total_updates is None:
            return False
        if self.validate_every is not None:
            return progress.update % self.validate_every == 0 or self._is_late(progress)
        last = int(progress.history[-1]["update"]) if progress.history else 0
        left = VALIDATIONS - len(progress.history)
        due = left * (progress.update - last) >= progress.total_updates - last
        return due or (left > 1 and self._is_late(progress))

    def _is_late(self, progress: Progress) -> bool:
        """Returns whether training would take `LATE` times its minutes at the speed since the last estimate and at the
        speed of each of the last updates, and another estimate could lower the total."""
        updates, lasted = self._measured(progress, progress.seconds)
        left = (progress.total_updates or 0) - progress.update
        seconds_left = LATE * 60 * (self.limits.max_minutes or 0) - progress.seconds
        is_late = left * min(lasted / max(updates, 1), progress.seconds - self.last_seconds) > seconds_left
        self.late_updates = self.late_updates + 1 if is_late and left > ROOM * progress.update else 0
        self.last_seconds = progress.seconds
        if progress.update % self.agree_every:
            return False
        late = self.late_updates >= LATE_UPDATES and self._is_enough(updates, lasted)
        return bool(self.workers.broadcast_from_chief(late, "to notice that it is late"))


def updates_within(seconds: float, pace: float, validation_seconds: float, every: int | None, validations: int) -> int:
    """Returns how many updates fit into a time, their validations included; negative if the validations alone do not.

    Args:
        seconds: the time.
        pace: seconds per update.
        validation_seconds: seconds per validation.
        every: updates between two validations; None for a number of them.
        validations: that number.
    """
    if every is None:
        return math.floor((seconds - validations * validation_seconds) / pace)
    return math.floor(seconds / (pace + validation_seconds / every))


def is_due(update: int, every: int | None, total: int | None) -> bool:
    """Returns whether the model is validated after an update.

    Args:
        update: number of updates made.
        every: updates between two validations; None for `VALIDATIONS` of them, spread evenly over the total.
        total: number of updates of the training; None if it is not known yet, in which case no validation is due.
    """
    if every is not None:
        return update % every == 0
    return total is not None and VALIDATIONS * update // total > VALIDATIONS * (update - 1) // total

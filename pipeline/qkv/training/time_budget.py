"""The number of updates of a training that is given minutes, fixed once from the speed of its first updates; and the
updates after which the model is validated."""

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


@dataclass
class TimeBudget:
    """Measures the speed of the first updates and sets `Progress.total_updates` and the schedule by it.

    Args:
        schedule: the learning rates, which end at the total.
        limits: the minutes that the total should fill, and the maximum numbers of updates and epochs.
        updates_per_epoch: number of updates of an epoch.
        validate_every: updates between two validations; None for `VALIDATIONS` of them.
        workers: all workers, which follow the chief's measurement.
        agree_every: number of updates between two questions to the chief.
    """

    schedule: ClockSchedule
    limits: Limits
    _: KW_ONLY
    updates_per_epoch: int
    validate_every: int | None
    workers: Workers
    agree_every: int = 1

    def restore(self, progress: Progress) -> None:
        """Starts a session: sets the schedule to the total of the run, if it is fixed already."""
        self.first_update = progress.update + SKIPPED_UPDATES
        self.started: float | None = None
        self.update_seconds = math.inf
        self.schedule.total_updates.assign(progress.total_updates or 0)

    def is_ready(self, progress: Progress, seconds: Callable[[], float]) -> bool:
        """Returns whether enough updates are measured; to be called after every update until the total is fixed.

        Args:
            progress: how far the run has come.
            seconds: waits for the device, and returns the time spent in training.
        """
        measured = progress.update - self.first_update
        if measured < 0:
            return False
        if self.started is None:
            self.started = seconds()
        lasted = seconds() - self.started
        enough = min(60 * (self.limits.max_minutes or 0) * MEASURED_SHARE, MOST_MEASURED_SECONDS)
        if progress.update % self.agree_every:
            return False
        ready = measured >= MEASURED_UPDATES and lasted >= enough
        if not self.workers.of_chief(ready, "to measure its speed"):
            return False
        self.update_seconds = lasted / max(measured, 1)
        return True

    def fix(self, progress: Progress, seconds: float, validation_seconds: float) -> None:
        """Fixes the total.

        Args:
            progress: how far the run has come; gets the total.
            seconds: time spent in training.
            validation_seconds: the time that a validation takes.
        """
        seconds_left = 60 * (self.limits.max_minutes or 0) - seconds
        updates = updates_within(seconds_left, self.update_seconds, validation_seconds, self.validate_every)
        # There are at least as many again as were made until now: the learning rate needs room to fall.
        ends = [progress.update + max(updates, progress.update)]
        if self.limits.max_updates is not None:
            ends.append(self.limits.max_updates)
        if self.limits.max_epochs is not None:
            ends.append(self.limits.max_epochs * self.updates_per_epoch)
        progress.total_updates = round(self.workers.of_chief(min(ends), "to measure a validation"))
        self.schedule.total_updates.assign(progress.total_updates)


def updates_within(seconds: float, update_seconds: float, validation_seconds: float, validate_every: int | None) -> int:
    """Returns how many updates fit into a time, their validations included; negative if the validations alone do not.

    Args:
        seconds: the time.
        update_seconds: seconds per update.
        validation_seconds: seconds per validation.
        validate_every: updates between two validations; None for `VALIDATIONS` of them.
    """
    if validate_every is None:
        return math.floor((seconds - VALIDATIONS * validation_seconds) / update_seconds)
    return math.floor(seconds / (update_seconds + validation_seconds / validate_every))


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

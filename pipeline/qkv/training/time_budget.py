"""The total of updates of a training that is limited by minutes, estimated from the speed of its updates.

The first estimate follows after some twenty updates, and another one after each validation. The module also decides
after which updates the model is validated.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from ..runtime.workers import Workers
from .progress import Progress
from .schedule import ClockSchedule
from .stopping import Limits

VALIDATIONS = 10  # of a training whose total of updates is known
SKIPPED_UPDATES = 5  # at the start of a session: they trace graphs and fill caches, and are not measured
MEASURED_UPDATES = 20  # the fewest for an estimate
MEASURED_SHARE = 0.03  # of the minutes, the shortest time for the first estimate
MOST_MEASURED_SECONDS = 120.0  # an upper bound of that time
LATE = 1.25  # a training is late if it would take this multiple of its minutes: then it is validated at once
LATE_UPDATES = 3  # in a row before a training is late; a single slow update may have traced a graph
EXTRA_SHARE = 0.05  # of the updates made: this many follow if the minutes are over, and the learning rate falls in them


@dataclass
class TimeBudget:
    """The estimates of the total of updates. They set `Progress.total_updates` and the schedule of the learning rate.

    Call `restore` at the start of each session.

    Args:
        schedule: the schedule, whose learning rate is zero at the total.
        limits: the minutes that training should take, and the maximum numbers of updates and epochs.
        updates_per_epoch: number of updates of an epoch.
        validate_every: updates between two validations; None for `VALIDATIONS` ones, spread evenly.
        workers: all workers. Every worker uses the estimates of the chief.
        agree_every: number of updates between two decisions of the chief: whether the first total can be estimated, and
            whether the training is late. 1 for a single process.

    Attributes:
        first_update: the update from which on this session measures the speed.
        measured_from: the update and the seconds spent in training at which the measurement began; None before.
        last_seconds: the seconds spent in training at the last update.
        last_update: the number of updates then.
        late_updates: the number of updates in a row after which the training was late.
    """

    schedule: ClockSchedule
    limits: Limits
    _: KW_ONLY
    updates_per_epoch: int
    validate_every: int | None
    workers: Workers
    agree_every: int = 1
    first_update: int = field(default=SKIPPED_UPDATES, init=False)
    measured_from: tuple[int, float] | None = field(default=None, init=False)
    last_seconds: float = field(default=0.0, init=False)
    last_update: int = field(default=0, init=False)
    late_updates: int = field(default=0, init=False)

    def restore(self, progress: Progress) -> None:
        """Starts a session: sets the schedule by the estimates in `progress`, and measures the speed again."""
        self.first_update = progress.update + SKIPPED_UPDATES
        self.measured_from = None
        self.last_seconds, self.last_update = progress.seconds, progress.update
        self.late_updates = 0
        self.schedule.follow(progress.totals)

    def is_ready(self, progress: Progress, seconds: Callable[[], float]) -> bool:
        """Returns whether the first total can be estimated. Call it after every update.

        Args:
            progress: the progress of the run.
            seconds: a function that waits for the device, and returns the seconds spent in training.
        """
        if self.measured_from is None:
            if progress.update < self.first_update:
                return False
            self.measured_from = progress.update, seconds()
        if progress.total_updates is not None or progress.update % self.agree_every:
            return False
        measured_updates, measured_seconds = self._measured(progress, seconds())
        is_ready = measured_updates >= MEASURED_UPDATES and measured_seconds >= self._enough_seconds
        return bool(self.workers.broadcast_from_chief(is_ready, "to measure its speed"))

    def estimate(self, progress: Progress, validation_began: float, validation_seconds: float, seconds: float) -> None:
        """Estimates the total of updates, for the first time or again after a validation.

        The last total stays if training has ended, or if this session has measured too few updates.

        Args:
            progress: the progress of the run; its `total_updates` is set.
            validation_began: the seconds spent in training at the end of the last update.
            validation_seconds: the seconds that a validation takes.
            seconds: the seconds spent in training now, after the validation.
        """
        update = progress.update
        total = progress.total_updates
        if update == total:
            return
        measured_updates, measured_seconds = self._measured(progress, validation_began)
        self.measured_from = update - measured_updates, seconds - measured_seconds  # leaves the validation out
        if total is None or self._is_enough(measured_updates, measured_seconds):
            seconds_left = 60 * (self.limits.max_minutes or 0) - seconds
            planned = VALIDATIONS - len(progress.history)
            pace = measured_seconds / max(measured_updates, 1)
            updates_left = updates_within(seconds_left, pace, validation_seconds, self.validate_every, planned)
            # If the minutes are over, the learning rate needs some updates to fall.
            extra = update if total is None else min(math.ceil(EXTRA_SHARE * update), total - update)
            epoch_limit = self.limits.max_epochs and self.limits.max_epochs * self.updates_per_epoch
            ends = (update + max(updates_left, extra), self.limits.max_updates, epoch_limit)
            total = min(end for end in ends if end is not None)
            self.measured_from = update, seconds
        progress.total_updates = int(self.workers.broadcast_from_chief(total, "to estimate its updates"))
        self.schedule.follow(progress.totals)

    @property
    def _enough_seconds(self) -> float:
        """The number of seconds of measured updates that an estimate needs."""
        return min(60 * (self.limits.max_minutes or 0) * MEASURED_SHARE, MOST_MEASURED_SECONDS)

    def _is_enough(self, updates: int, seconds: float) -> bool:
        """Returns whether a number of measured updates, or their time in seconds, is enough for a further estimate."""
        return updates >= MEASURED_UPDATES or seconds >= self._enough_seconds

    def _measured(self, progress: Progress, seconds: float) -> tuple[int, float]:
        """Returns the number of updates since the measurement of the speed began, and the seconds that they took.

        `seconds` are the seconds spent in training at the end of the last update.
        """
        update, began = self.measured_from or (progress.update, seconds)
        return progress.update - update, seconds - began

    def is_validation_due(self, progress: Progress) -> bool:
        """Returns whether the model is validated after the last update. Call it after every update.

        If `validate_every` is None, the remaining validations are spread evenly over the remaining updates. If the
        training is late, the model is validated at once, since a new estimate follows a validation. Before the first
        estimate, the result is False.
        """
        if progress.total_updates is None:
            return False
        may_be_late = self.validate_every is not None or VALIDATIONS - len(progress.history) > 1
        return self.is_planned(progress, progress.update) or (may_be_late and self._is_late(progress))

    def is_planned(self, progress: Progress, update: int) -> bool:
        """Returns whether the model is validated after an update if the training is not late by then.

        Args:
            progress: the progress of the run, with an estimate of its total. Its last update is not after `update`.
            update: the number of the update.
        """
        if self.validate_every is not None:
            return update % self.validate_every == 0
        last = int(progress.history[-1]["update"]) if progress.history else 0
        validations_left = VALIDATIONS - len(progress.history)
        return validations_left * (update - last) >= (progress.total_updates or 0) - last

    def _is_late(self, progress: Progress) -> bool:
        """Returns whether the training is late. Call it after every update: it counts late updates in a row.

        The training is late if it would take more than `LATE` times its minutes, both at the mean speed since the last
        estimate and at the speed of each of the last `LATE_UPDATES` updates. It is not late if another estimate could
        hardly lower the total.
        """
        measured_updates, measured_seconds = self._measured(progress, progress.seconds)
        updates_left = (progress.total_updates or 0) - progress.update
        seconds_left = LATE * 60 * (self.limits.max_minutes or 0) - progress.seconds
        last_pace = (progress.seconds - self.last_seconds) / max(progress.update - self.last_update, 1)
        pace = min(measured_seconds / max(measured_updates, 1), last_pace)
        is_late = updates_left * pace > seconds_left
        self.late_updates = self.late_updates + 1 if is_late and updates_left > EXTRA_SHARE * progress.update else 0
        self.last_seconds, self.last_update = progress.seconds, progress.update
        if progress.update % self.agree_every:
            return False
        late = self.late_updates >= LATE_UPDATES and self._is_enough(measured_updates, measured_seconds)
        return bool(self.workers.broadcast_from_chief(late, "to notice that it is late"))


def updates_within(seconds: float, pace: float, validation_seconds: float, every: int | None, validations: int) -> int:
    """Returns the number of updates that fit into a time together with their validations.

    The number is negative if the validations alone take longer.

    Args:
        seconds: the time.
        pace: seconds per update.
        validation_seconds: seconds per validation.
        every: updates between two validations; None for a fixed number of validations.
        validations: the number of validations if `every` is None.
    """
    if every is None:
        return math.floor((seconds - validations * validation_seconds) / pace)
    return math.floor(seconds / (pace + validation_seconds / every))


def is_due(update: int, every: int | None, total: int | None) -> bool:
    """Returns whether the model is validated after an update, in a training without a `TimeBudget`.

    Args:
        update: number of updates made.
        every: updates between two validations; None for `VALIDATIONS` ones, spread evenly over the total.
        total: the number of updates of the training; None if it is not known. Without `every` and `total` the result is
            False.
    """
    if every is not None:
        return update % every == 0
    return total is not None and VALIDATIONS * update // total > VALIDATIONS * (update - 1) // total

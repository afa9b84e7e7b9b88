"""Measures training: the time it has taken, and the means of the metrics of its updates."""

import math
import time

from .checkpoint import Progress
from .step import TrainStepMetrics


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

"""The progress of a training on standard output, and `history.csv`."""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import keras
import pandas as pd

from ...config.choices.translation import METRIC_INFO
from ...files.atomic import write_atomically
from ...runtime.streams import Control
from ..progress import Progress
from ..stopping import Limits

LONGEST_SILENCE_SECONDS = 10
BAR_WIDTH = 20
MEANS = {"loss": "loss {:.3f}", "tokens_per_second": "{:,.0f} tokens/s", "learning_rate": "learning rate {:.2e}"}
COUNTS = {"skipped_updates": "{:.0f} updates left out"}


def clock(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds, such as `1:02:03`; without hours as `2:03`."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@dataclass(eq=False)
class ProgressLine(keras.callbacks.Callback):
    """A callback that prints the progress of training.

    On a terminal it prints one line with a bar, and rewrites it. Elsewhere it prints plain lines. It prints a line for
    each log. If logs are further than `LONGEST_SILENCE_SECONDS` apart, it prints shorter lines in between.

    Args:
        limits: the limits of training, from which the remaining time is estimated.
        updates_per_epoch: number of updates of an epoch, for a limit of epochs.
        progress: the progress of the run. The remaining time follows from its `total_updates` unless that is None.
        stream: the stream for the lines; standard output by default.

    Attributes:
        first: the update and the seconds spent in training at the line from which the speed is measured: the first line
            of the session, or the first line after the last estimate of the total.
        first_total: `progress.total_updates` at that line.
        printed_at: the seconds spent in training at the last line.
    """

    limits: Limits
    updates_per_epoch: int
    progress: Progress
    stream: TextIO = field(default_factory=lambda: sys.stdout)

    needed_updates = ()  # besides those that are logged, see `training.loop`

    def __post_init__(self) -> None:
        super().__init__()
        self.first: tuple[float, float] | None = None
        self.first_total: int | None = None
        self.printed_at = self.progress.seconds

    def on_train_begin(self, logs=None):
        self._print_status("starting: the first update takes the longest")

    def on_train_batch_end(self, batch, logs=None):
        if logs:
            self._print(self._line(logs), rewritable=True)
        elif self.progress.seconds - self.printed_at >= LONGEST_SILENCE_SECONDS:
            logs = {"update": self.progress.update, "minutes": self.progress.seconds / 60}
            self._print(self._line(logs), rewritable=True)

    def on_test_begin(self, logs=None):
        self._print_status(f"update {self.progress.update:>6}  validating")

    def on_test_end(self, logs=None):
        metrics = [f"{row.title} {logs[f'val_{name}']:.{row.digits}f}" for name, row in METRIC_INFO.items()]
        after = f"after {clock(60 * logs['minutes'])}"
        line = "  ".join([f"update {logs['update']:>6.0f}", f"validation: {metrics[0]}", *metrics[1:], after])
        self._print(line, rewritable=False)

    def _line(self, logs: dict[str, float]) -> str:
        """Returns the text of the line for `logs`, which must have `update` and `minutes`."""
        seconds = 60 * logs["minutes"]
        if self.first is None or self.first_total != self.progress.total_updates:  # estimating the total took time
            self.first = logs["update"], seconds
            self.first_total = self.progress.total_updates
        seconds_left = self._seconds_left(logs["update"], seconds)
        fields = [f"update {logs['update']:>6.0f}", f"epoch {self.progress.epoch + 1}"]
        fields += [form.format(logs[name]) for name, form in MEANS.items() if name in logs]
        fields += [form.format(logs[name]) for name, form in COUNTS.items() if logs.get(name)]
        if seconds_left is not None:
            fields.append(f"{clock(seconds_left)} left")
            if seconds and self.stream.isatty():  # a narrow terminal cuts off the end
                fields = [_bar(seconds / (seconds + seconds_left)), fields[-1], *fields[:-1]]
        return "  ".join(fields)

    def _seconds_left(self, update: float, seconds: float) -> float | None:
        """Returns the seconds until the first limit is reached; None if they cannot be estimated yet."""
        assert self.first
        candidates = []
        if self.limits.max_minutes is not None and (self.progress.total_updates is None or update == self.first[0]):
            candidates.append(60 * self.limits.max_minutes - seconds)
        ends = [
            self.progress.total_updates or self.limits.max_updates,
            self.limits.max_epochs and self.limits.max_epochs * self.updates_per_epoch,
        ]
        if update > self.first[0]:
            pace = (seconds - self.first[1]) / (update - self.first[0])
            candidates += [(end - update) * pace for end in ends if end is not None]
        return max(min(candidates), 0.0) if candidates else None

    def _print_status(self, line: str) -> None:
        """Prints a line that the next one replaces, on a terminal only."""
        if self.stream.isatty():
            self._print(line, rewritable=True)

    def _print(self, line: str, rewritable: bool) -> None:
        self.printed_at = self.progress.seconds
        if self.stream.isatty():
            if rewritable:  # a line that the terminal wraps cannot be rewritten
                line = line[: shutil.get_terminal_size().columns - 1]
            self.stream.write(Control("\r\x1b[K"))
            self.stream.write(line if rewritable else f"{line}\n")
        else:
            self.stream.write(line + "\n")
        self.stream.flush()


def _bar(share: float) -> str:
    """Draws a share from 0 to 1 as a bar, such as `[#####---------------]  25 %`."""
    filled = int(BAR_WIDTH * share)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}] {100 * share:3.0f} %"


@dataclass(eq=False)
class History(keras.callbacks.Callback):
    """A callback that rewrites `history.csv` at each validation, with a row for each validation of the run so far.

    Args:
        path: the path of the file.
        progress: the progress of the run.
    """

    path: Path
    progress: Progress

    def __post_init__(self) -> None:
        super().__init__()

    def on_test_end(self, logs=None):
        table = pd.DataFrame(self.progress.history)
        write_atomically(self.path, table.to_csv(index=False, lineterminator="\n").encode())

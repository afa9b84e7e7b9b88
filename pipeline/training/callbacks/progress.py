"""What a person sees of a run while it trains: a line or bar of progress, and `history.csv`."""

import sys
from pathlib import Path
from typing import TextIO

import keras
import pandas as pd

from ...files import write_atomically
from ..checkpoint import Progress
from ..stopping import Limits


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class ProgressLine(keras.callbacks.Callback):
    """Tells how training goes: a line that is rewritten on a terminal, one line after the other elsewhere.

    Args:
        limits: of the training, to tell the time left.
        updates_per_epoch: to tell the time left where only epochs are limited.
        stream: where it is written; by default standard output.
    """

    def __init__(self, limits: Limits, updates_per_epoch: int, stream: TextIO | None = None) -> None:
        super().__init__()
        self.limits = limits
        self.updates_per_epoch = updates_per_epoch
        self.stream = stream or sys.stdout
        self.first: tuple[float, float] | None = None

    def on_train_batch_end(self, batch, logs=None):
        if logs:
            self._say(self._line(logs), passing=True)

    def on_test_end(self, logs=None):
        self._say(
            f"update {logs['update']:>6.0f}  validation: loss {logs['val_loss']:.3f}  "
            f"perplexity {logs['val_perplexity']:.2f}  accuracy {logs['val_token_accuracy']:.3f}  "
            f"BLEU {logs['val_bleu']:.2f}  after {clock(60 * logs['minutes'])}",
            passing=False,
        )

    def _line(self, logs: dict[str, float]) -> str:
        seconds = 60 * logs["minutes"]
        self.first = self.first or (logs["update"], seconds)
        left = self._seconds_left(logs["update"], seconds)
        speed = logs.get("tokens_per_second")  # unknown until the second line
        parts = [
            f"update {logs['update']:>6.0f}",
            f"epoch {logs['epoch'] + 1:.0f}",
            f"loss {logs['loss']:.3f}",
            *([f"{speed:,.0f} tokens/s"] if speed is not None else []),
            f"learning rate {logs['learning_rate']:.2e}",
            *([f"{clock(left)} left"] if left is not None else []),
        ]
        return "  ".join(parts)

    def _seconds_left(self, update: float, seconds: float) -> float | None:
        assert self.first
        limits = []
        if self.limits.minutes is not None:
            limits.append(60 * self.limits.minutes - seconds)
        ends = [self.limits.updates, self.limits.epochs and self.limits.epochs * self.updates_per_epoch]
        if update > self.first[0]:
            pace = (seconds - self.first[1]) / (update - self.first[0])
            limits += [(end - update) * pace for end in ends if end is not None]
        return min(limits) if limits else None

    def _say(self, text: str, passing: bool) -> None:
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{text}" + ("" if passing else "\n"))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()


class History(keras.callbacks.Callback):
    """Keeps `history.csv`: one row for each validation, from the first update of the run on.

    Args:
        path: the file, written anew each time.
        progress: of the run, whose rows are written.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        super().__init__()
        self.path = path
        self.progress = progress

    def on_test_end(self, logs=None):
        write_atomically(self.path, pd.DataFrame(self.progress.history).to_csv(index=False).encode())

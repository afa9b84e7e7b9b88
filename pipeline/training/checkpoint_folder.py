"""The checkpoints of a run: which are kept, and which one training goes on from."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras

from ..config.names import METRICS
from ..errors import InputError
from .checkpoint import Progress, load_checkpoint, save_checkpoint

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of a run: those of the last few validations, `update-00000500.npz`, and the best, `best.npz`.

    Between validations there is one at most, `passing-00000512.npz`, which goes with the next. The newest is read back
    before an older one goes, and one that was damaged later gives way to the one before.

    Args:
        folder: where they are.
        keep: number of recent ones that stay.
        keep_best: number of those that stay as they are the best on validation.
        metric: the validation metric that says so, without `val_`.
    """

    def __init__(self, folder: Path, keep: int = 1, keep_best: int = 0, metric: str = "loss") -> None:
        self.folder = folder
        self.keep = keep
        self.keep_best = keep_best
        self.metric = metric
        self.best = folder / "best.npz"

    def recent(self) -> Sequence[Path]:
        """Those of validations, oldest first."""
        return sorted(self.folder.glob("update-*.npz"))

    def all(self) -> Sequence[Path]:
        """All that can be gone on from, oldest first."""
        return sorted([*self.recent(), *self._interim()], key=lambda path: path.stem.partition("-")[2])

    def _interim(self) -> Iterator[Path]:
        return self.folder.glob("passing-*.npz")

    def save_interim(self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
        """Writes a checkpoint between validations in place of the one before."""
        path = self.folder / f"passing-{progress.update:08d}.npz"
        save_checkpoint(path, model, optimizer, progress)
        for old in self._interim():
            if old != path:
                old.unlink()

    def save(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress, best: bool = False
    ) -> None:
        """Writes the checkpoint of a validation, as the best one too if it is, and deletes the oldest."""
        if best:
            save_checkpoint(self.best, model, optimizer, progress)
        save_checkpoint(self._of_update(progress.update), model, optimizer, progress)
        kept = self.best_few(progress)
        for old in self.recent()[: -self.keep]:
            if old not in kept:
                old.unlink()
        for passing in self._interim():
            passing.unlink()

    def best_few(self, progress: Progress) -> Sequence[Path]:
        """Those of the `keep_best` updates that were best on validation, best first."""
        if not self.keep_best:
            return []
        key = f"val_{self.metric}"
        rows = sorted(progress.history, key=lambda row: row[key], reverse=not METRICS[self.metric].lower_is_better)
        paths = [self._of_update(round(row["update"])) for row in rows[: self.keep_best]]
        return [path for path in paths if path.is_file()]

    def _of_update(self, update: int) -> Path:
        return self.folder / f"update-{update:08d}.npz"

    def restore(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Progress:
        """Puts the newest checkpoint that is whole into model and optimizer, and warns of those that are not.

        Raises:
            InputError: there is none, or all are damaged, or they are of another model.
        """
        self.last()
        for leftover in self.folder.glob(".*.npz"):  # of a write that a crash cut short
            leftover.unlink(missing_ok=True)
        *others, newest = self.all()
        try:
            return load_checkpoint(newest, model, optimizer)
        except InputError as error:
            for older in reversed(others):
                try:
                    progress = load_checkpoint(older, model, optimizer)
                except InputError:
                    continue
                log.warning("%s\ngoing on from the one before: %s", error, older)
                newest.unlink(missing_ok=True)
                return progress
            raise

    def last(self) -> Path:
        """The newest one.

        Raises:
            InputError: there is none.
        """
        paths = self.all()
        if not paths:
            raise InputError(
                f"{self.folder}: no checkpoint yet, so there is nothing to go on from; delete the run and start it anew"
            )
        return paths[-1]

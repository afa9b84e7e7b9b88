"""The checkpoints of a run: which of them are kept, and from which one training continues."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import keras

from ..errors import InputError
from .checkpoint import Progress, load_checkpoint, save_checkpoint

log = logging.getLogger(__name__)


class Checkpoints:
    """The folder of a run's checkpoints.

    Each validation saves one, such as `update-00000500.npz`, and copies it to `best.npz` if it is the best so far.
    Between validations there is at most one interim checkpoint, such as `passing-00000512.npz`; the next validation
    deletes it. A checkpoint is read back before an older one is deleted, and if the newest is damaged later, training
    continues from the one before.

    Args:
        folder: the folder, which need not exist yet.
        keep: number of recent checkpoints of validations to keep.
        origin: of which run they are, see `text.provenance.origin_of`; a checkpoint of another is not loaded.
    """

    def __init__(self, folder: Path, keep: int = 1, origin: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.origin = dict(origin or {})
        self.best = folder / "best.npz"

    def recent(self) -> Sequence[Path]:
        """Returns the checkpoints of validations that are still there, oldest first."""
        return sorted(self._named("update"))

    def all(self) -> Sequence[Path]:
        """Returns all checkpoints from which training can continue, oldest first."""
        return sorted([*self.recent(), *self._named("passing")], key=lambda path: path.stem.split("-")[::-1])

    def _named(self, kind: str) -> Iterator[Path]:
        """Yields the checkpoints of a kind; copies that people have put beside them have other names."""
        return (path for path in self.folder.glob("*.npz") if re.fullmatch(rf"{kind}-[0-9]{{8,}}", path.stem))

    def save_interim(self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress) -> None:
        """Saves an interim checkpoint, which replaces the one before."""
        progress = replace(progress, origin=self.origin)
        path = self.folder / f"passing-{progress.update:08d}.npz"
        save_checkpoint(path, model, optimizer, progress)
        for old in self._named("passing"):
            if old != path:
                old.unlink()

    def save(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, progress: Progress, best: bool = False
    ) -> None:
        """Saves the checkpoint of a validation, also as the best one if it is, and deletes those no longer needed."""
        progress = replace(progress, origin=self.origin)
        if best:
            save_checkpoint(self.best, model, optimizer, progress)
        save_checkpoint(self._of_update(progress.update), model, optimizer, progress)
        self.delete_superseded()

    def delete_superseded(self) -> None:
        """Deletes the checkpoints that are no longer needed."""
        newest = self.all()[-1]
        for old in [*self.recent()[: -self.keep], *self._named("passing")]:
            if old != newest:
                old.unlink()

    def _of_update(self, update: int) -> Path:
        return self.folder / f"update-{update:08d}.npz"

    def restore(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Progress:
        """Loads the newest checkpoint that is intact into model and optimizer, and warns of a damaged one.

        Raises:
            InputError: there is none, all are damaged, or they are of another model.
        """
        self.last()
        *others, newest = self.all()
        try:
            return load_checkpoint(newest, model, optimizer, self.origin)
        except InputError as error:
            for older in reversed(others):
                try:
                    progress = load_checkpoint(older, model, optimizer, self.origin)
                except InputError:
                    continue
                log.warning("%s\ncontinuing from the checkpoint before it: %s", error, older)
                newest.unlink(missing_ok=True)
                return progress
            raise

    def last(self) -> Path:
        """Returns the newest checkpoint.

        Raises:
            InputError: there is none.
        """
        paths = self.all()
        if not paths:
            raise InputError(
                f"{self.folder}: no checkpoint to continue from; delete the run's folder and start it anew"
            )
        return paths[-1]

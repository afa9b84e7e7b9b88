"""Archives the attention over the probe sentences while a model is trained, which shows when alignment emerges."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import keras

from ...inspection.archive_writer import ArchiveWriter
from ...inspection.recorder import AttentionRecorder
from ...inspection.viewer.stages import probe_archives


class ProbeArchive(keras.callbacks.Callback):
    """Writes an attention archive, such as `update-00000850`, at every validation and after some further updates.

    It records the attention over the references, because translations change from one validation to the next, and the
    first ones are not sentences.

    Args:
        folder: where the archives are written.
        recorder: records the attention of the model that is trained.
        probes: (source, reference or None); probes without a reference are left out.
        first_update: number of updates made before. Archives of later updates are from an interrupted run, and are
            deleted.
        updates: numbers of updates after which an archive is written besides; 0 for the untrained model.
    """

    def __init__(
        self,
        folder: Path,
        recorder: AttentionRecorder,
        probes: Sequence[tuple[str, str | None]],
        first_update: int = 0,
        updates: Collection[int] = (),
    ) -> None:
        super().__init__()
        self.folder = folder
        self.recorder = recorder
        self.pairs = [(source, reference) for source, reference in probes if reference]
        self.first_update = first_update
        self.updates = frozenset(updates)

    def on_train_begin(self, logs=None):
        for archive, update in probe_archives(self.folder):
            if update > self.first_update:
                shutil.rmtree(archive)
        if self.first_update == 0 and 0 in self.updates:
            self._archive(0)

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 in self.updates:
            self._archive(batch + 1)

    def on_test_end(self, logs=None):
        self._archive(int(logs["update"]))

    def _archive(self, update: int) -> None:
        if not self.pairs:
            return
        archive = self.folder / f"update-{update:08d}"
        shutil.rmtree(archive, ignore_errors=True)  # left by a crash
        sources, references = zip(*self.pairs, strict=True)
        with ArchiveWriter(archive, manifest={"update": update}) as writer:
            for record in self.recorder.record_references(sources, references):
                writer.append(record)

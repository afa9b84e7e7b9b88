"""Probe sentences while a model is trained: their translations are printed, and their attention is archived, which
shows when alignment emerges."""

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import keras

from ...decoding.translator import Translator
from ...inspection.archive import ArchiveWriter, delete_archive, probe_archives
from ...inspection.record import Record, shorten
from ...inspection.recorder import AttentionRecorder
from ...runtime.streams import EscapingStream
from ...text.corpora.corpus import Corpus

MOST_PRINTED = 3
MOST_CHARACTERS = 100
MIDDLE = (0.4, 0.5, 0.6)  # shares of the validation pairs that are shorter than each probe


def middle_pairs(corpus: Corpus) -> list[tuple[str, str]]:
    """Chooses a few pairs of middle length, whose order in the text does not matter."""
    filled = {pair for pair in corpus.pairs() if all(pair)}
    pairs = sorted(filled, key=lambda pair: (len(pair[0]), pair))
    places = dict.fromkeys(round(share * (len(pairs) - 1)) for share in MIDDLE) if pairs else ()
    return [pairs[place] for place in places]


@dataclass(eq=False)
class ProbeLines(keras.callbacks.Callback):
    """Prints source, reference and translation of the first `MOST_PRINTED` probes after each validation.

    Args:
        translator: translates with the model that is trained.
        probes: (source, reference or None) of each sentence.
        stream: where the lines are written; standard output by default.
    """

    translator: Translator
    probes: Sequence[tuple[str, str | None]]
    stream: TextIO | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def on_test_end(self, logs=None):
        probes, stream = self.probes[:MOST_PRINTED], EscapingStream(self.stream or sys.stdout)
        translations = self.translator.translate([source for source, _ in probes]) if probes else []
        for (source, reference), translation in zip(probes, translations, strict=True):
            rows = {"source": source, "reference": reference, "translation": translation.text}
            for name, text in rows.items():
                if text is not None:
                    stream.write(f"  {name:<11}  {shorten(text, MOST_CHARACTERS)}\n")
        stream.flush()


@dataclass(eq=False)
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
        show: takes the number of updates and the records of each archive.
    """

    folder: Path
    recorder: AttentionRecorder
    probes: Sequence[tuple[str, str | None]]
    first_update: int = 0
    updates: Collection[int] = ()
    show: Callable[[int, Sequence[Record]], None] = lambda update, records: None

    def __post_init__(self) -> None:
        super().__init__()
        self.pairs = [(source, reference) for source, reference in self.probes if reference]

    def on_train_begin(self, logs=None):
        for archive, update in probe_archives(self.folder):
            if update > self.first_update:
                delete_archive(archive)
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
        delete_archive(archive)  # left by a crash
        records = list(self.recorder.record_references(*zip(*self.pairs, strict=True)))
        with ArchiveWriter(archive, manifest={"update": update}) as writer:
            for record in records:
                writer.append(record)
        self.show(update, records)

"""Probe sentences, with which the model is watched during training.

Their translations are printed, and their attention is archived, which shows when alignment emerges.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import keras

from ...decoding.translator import Translator
from ...inspection.archive import ArchiveWriter, delete_archive, probe_archives
from ...inspection.record import Record
from ...inspection.recorder import AttentionRecorder
from ...runtime.streams import EscapingStream
from ...text.corpora.corpus import Corpus
from ...text.lines.line import shorten

MOST_PRINTED = 3
LONGEST_LINE = 100  # characters of a sentence that are printed
MIDDLE = (0.4, 0.5, 0.6)  # shares of the validation pairs that are shorter than each probe


def middle_pairs(corpus: Corpus) -> list[tuple[str, str]]:
    """Chooses up to three sentence pairs whose source is of middle length. The order of the corpus does not matter.

    Returns:
        Pairs of source and reference, both not empty; an empty list if the corpus has no such pair.
    """
    complete = {pair for pair in corpus.pairs() if all(pair)}
    pairs = sorted(complete, key=lambda pair: (len(pair[0]), pair))
    if not pairs:
        return []
    indices = dict.fromkeys(round(share * (len(pairs) - 1)) for share in MIDDLE)
    return [pairs[index] for index in indices]


@dataclass(eq=False)
class ProbeLines(keras.callbacks.Callback):
    """A callback that prints some probes after each validation: source, reference and translation.

    It prints the first `MOST_PRINTED` probes.

    Args:
        translator: translates with the model that is trained.
        probes: the source and the reference of each sentence; the reference may be None.
        stream: the stream for the lines; None for standard output.
    """

    translator: Translator
    probes: Sequence[tuple[str, str | None]]
    stream: TextIO | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def on_test_end(self, logs=None):
        probes = self.probes[:MOST_PRINTED]
        stream = EscapingStream(self.stream or sys.stdout)
        translations = self.translator.translate([source for source, _ in probes]) if probes else []
        for (source, reference), translation in zip(probes, translations, strict=True):
            rows = {"source": source, "reference": reference, "translation": translation.text}
            for name, text in rows.items():
                if text is not None:
                    stream.write(f"  {name:<11}  {shorten(text, LONGEST_LINE)}\n")
        stream.flush()


@dataclass(eq=False)
class ProbeArchive(keras.callbacks.Callback):
    """A callback that writes an attention archive, such as `update-00000850`, at validations and some further updates.

    It records the attention of a teacher-forced pass over the references: translations change from one validation to
    the next, and the first ones are not sentences.

    Args:
        folder: the folder of the archives.
        recorder: records the attention of the model that is trained.
        probes: the source and the reference of each sentence. Probes whose reference is None are left out.
        first_update: number of updates made before this session. Archives of later updates are from an interrupted
            session, and are deleted.
        updates: further numbers of updates after which an archive is written; 0 for the untrained model.
        show: called with the number of updates and the records of each archive.
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

    @property
    def needed_updates(self):
        """The updates after which the loop must call it, see `training.loop`."""
        return self.updates

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

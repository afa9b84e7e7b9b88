"""TensorBoard's pages of a run: curves against updates, the probe sentences with their attention, and the
vectors of the subwords in its projector."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

import keras
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.projector import ProjectorConfig

from ...decoding.translator import Translator
from ...files.atomic import write_atomically
from ...inspection.head_tables import heads_table
from ...inspection.heatmap import attention_figure, figure_to_png
from ...inspection.measures import MEASURES
from ...inspection.record import Record
from ...inspection.recorder import AttentionRecorder

MARKDOWN = str.maketrans({character: f"&#{ord(character)};" for character in "&\\`*_{}[]()<>|#!~$"})
"""As entities: TensorBoard's Markdown knows no backslash before some of them, and would show it."""
PLACE = ("update", "epoch", "minutes")


class TensorBoard(keras.callbacks.Callback):
    """Writes event files; every step is a number of updates.

    Args:
        folder: the folder of the event files.
        translator: translates with the model that is trained.
        recorder: records the attention of the same model.
        probes: (source, reference or None) of each fixed sentence.
        hyperparameters: the run's settings by dotted key, shown beside its last validation.
        first_update: number of updates made before. Older event files hold later updates only of an interrupted run;
            these are hidden.
    """

    def __init__(
        self,
        folder: Path,
        translator: Translator,
        recorder: AttentionRecorder,
        probes: Sequence[tuple[str, str | None]],
        hyperparameters: dict[str, Any] | None = None,
        first_update: int = 0,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.translator = translator
        self.recorder = recorder
        self.sources = [source for source, _ in probes]
        self.references = [reference or "" for _, reference in probes]
        self.hyperparameters = hyperparameters or {}
        self.first_update = first_update
        self.writer: Any = None

    def on_train_begin(self, logs=None):
        if self.first_update:
            forget_from(self.folder, self.first_update + 1)
        self.writer = tf.summary.create_file_writer(str(self.folder))
        if not self.first_update:
            with self.writer.as_default(step=0):
                tf.summary.graph(self.recorder.graph)
        if self.hyperparameters:
            with self.writer.as_default(step=self.first_update):
                hparams_api.hparams(as_hyperparameters(self.hyperparameters))

    def on_train_batch_end(self, batch, logs=None):
        if logs:
            self._scalars("training", {name: value for name, value in logs.items() if name not in PLACE}, logs)

    def on_test_end(self, logs=None):
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        self._scalars("validation", validation, logs)
        if self.sources:
            with self.writer.as_default(step=int(logs["update"])):
                self._write_probes()
        self.writer.flush()

    def rehearse(self) -> None:
        """Does what a validation asks for, and writes nothing, so that its time can be measured."""
        if self.sources:
            with tf.summary.record_if(False):
                self._write_probes()

    def on_train_end(self, logs=None):
        self.writer.close()

    def _scalars(self, section: str, values: dict[str, float], logs: dict[str, float]) -> None:
        with self.writer.as_default(step=int(logs["update"])):
            for name, value in values.items():
                # TensorFlow refuses Python's numbers above 3e38, the perplexity of a training that diverges.
                tf.summary.scalar(f"{section}/{name}", np.float64(value))

    def _write_probes(self) -> None:
        translations = self.translator.translate(self.sources)
        records = list(self.recorder.record_translations(self.sources, self.references, translations))
        tf.summary.text("probes", probe_table(records))
        for layer, heads in heads_table(records).groupby("layer"):
            for name in [name for name, measure in MEASURES.items() if measure.in_tensorboard]:
                if not np.isnan(mean := heads[name].mean()):  # all translations are empty
                    tf.summary.scalar(f"attention/{name}, layer {layer}", mean)
        for record in records:
            for layer in range(len(record.attention["cross"])):
                png = figure_to_png(attention_figure(record, "cross", layer), dots_per_inch=80)
                image = tf.expand_dims(tf.io.decode_png(png, channels=3), 0)
                tf.summary.image(
                    f"probe {record.id}/cross-attention layer {layer}",
                    image,
                    description=f"{record.source.translate(MARKDOWN)}: all heads; rows are output tokens",
                )


def as_hyperparameters(values: dict[str, Any]) -> dict[str, bool | int | float | str]:
    """Returns settings as the kinds of values that the HPARAMS table takes."""
    return {name: value if isinstance(value, bool | int | float) else str(value) for name, value in values.items()}


def forget_from(folder: Path, update: int) -> None:
    """Makes TensorBoard hide this update and later ones in the folder's earlier event files."""
    now = time.time()
    files = sorted(folder.glob("*tfevents*"))
    if not files:
        return
    start = Event(wall_time=now, step=update, session_log=SessionLog(status=SessionLog.SessionStatus.START))
    # Twice: TensorBoard takes the first one that it reads for the start of the run, and hides nothing.
    events = [Event(wall_time=now, file_version="brain.Event:2"), start, start]
    path = files[-1].with_name(f"{files[-1].name}.resumed")  # read after all earlier files, and before any later one
    with tf.io.TFRecordWriter(str(path)) as writer:
        for event in events:
            writer.write(event.SerializeToString())


def probe_table(records: Sequence[Record]) -> str:
    """Makes a Markdown table of the probe sentences, their references and their translations."""
    rows = ["| # | source | reference | translation |", "| --- | --- | --- | --- |"]
    for record in records:
        cells = (str(record.id), record.source, record.reference or "", record.hypothesis)
        rows.append("| " + " | ".join(cell.translate(MARKDOWN) for cell in cells) + " |")
    return "\n".join(rows)


NAME = "subwords"
_UNWRITTEN = ("Cc", "Cs")  # control characters, and halves of characters, which UTF-8 does not have


def write_projector(folder: Path, pieces: Sequence[str], vectors: np.ndarray) -> None:
    """Writes the vectors, their names, and the config that leads the projector to both.

    Args:
        folder: the folder of the run's event files.
        pieces: the vocabulary's spelling of each id.
        vectors: float `(V, d_model)`.

    Raises:
        ValueError: the numbers of names and vectors differ.
    """
    if len(pieces) != len(vectors):
        raise ValueError(f"expected one name for each vector, found {len(pieces)} names and {len(vectors)} vectors")
    config = ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = NAME
    embedding.tensor_path, embedding.metadata_path = f"{NAME}.tsv", f"{NAME}_names.tsv"
    rows = ("\t".join(f"{value:.5g}" for value in vector) for vector in vectors.astype(float))
    write_atomically(folder / embedding.tensor_path, "".join(f"{row}\n" for row in rows).encode())
    write_atomically(
        folder / embedding.metadata_path, "".join(f"{name}\n" for name in map(_spell_name, pieces)).encode()
    )
    write_atomically(folder / "projector_config.pbtxt", text_format.MessageToString(config).encode())


def _spell_name(piece: str) -> str:
    """Returns a name that is a line of its own: TensorBoard skips lines of white space, which shifts all names after
    them, and takes a first line with a tab for headings."""
    if not any(character.isprintable() and character != " " for character in piece):
        return "".join(map(_escape, piece)) or "''"
    return "".join(
        _escape(one) if one != " " and (one.isspace() or category(one) in _UNWRITTEN) else one for one in piece
    )


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"

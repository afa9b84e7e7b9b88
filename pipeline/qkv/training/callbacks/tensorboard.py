"""Files that TensorBoard shows: curves over updates, probe sentences with their attention, and vectors of subwords."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unicodedata import category

import keras
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.projector import ProjectorConfig

from ...config.choices.translation import METRIC_INFO
from ...decoding.translator import Translator
from ...files.atomic import write_atomically
from ...files.run_directory import EVENT_FILES, RunDirectory
from ...files.written import FileList
from ...inspection.attention_card import AttentionCard, best_head
from ...inspection.head_tables import heads_table
from ...inspection.measures import MEASURES
from ...inspection.record import Record
from ...inspection.recorder import AttentionRecorder, pair_translations

MARKDOWN = str.maketrans({character: f"&#{ord(character)};" for character in "&\\`*_{}[]()<>|#!~$"})
"""Characters with a meaning in Markdown, and their HTML entities. TensorBoard would show some backslash escapes."""
TIME_KEYS = ("update", "epoch", "minutes")
"""The logs that are not drawn as curves."""
MOST_HEADS = 16  # a model with more heads has no picture for each head
DESCRIPTIONS = {
    "loss": "Cross-entropy of a target token in nats; in training with dropout and label smoothing, and so higher.",
    "perplexity": "exp(loss): among how many equally likely tokens the model seems to choose.",
    "token_accuracy": "Share of target tokens that are the likeliest ones, given the right tokens before them.",
    "bleu": "BLEU of greedy translations of the validation set, 0 to 100.",
    "gradient_norm": "Length of the gradient before it is clipped, as root mean square since the last point.",
    "learning_rate": "Step size of the optimizer.",
    "tokens_per_second": "Target tokens trained on in a second, without validations.",
    "entropy": "How spread the attention of a target token is, in nats: 0 on one source token. Mean over the heads.",
    "diagonality": "How close attention is to the diagonal: 1 on it, 2/3 if spread evenly. Mean over the heads.",
    "eos_share": "Share of attention on the end of the source sentence. Mean over the heads.",
}
"""The description of each curve, by the last part of its name."""


@dataclass(eq=False)
class TensorBoard(keras.callbacks.Callback):
    """A callback that writes TensorBoard's event files. A step of TensorBoard is an update.

    The event files of the training are in the folder of the run, because TensorBoard names a run after the folder. The
    event files of the validations are in a subfolder, which is a separate run for TensorBoard. So one chart has both
    losses, and the table of hyperparameters has the scores of validations only.

    It is a `training.loop.Rehearsable`.

    Args:
        run: the folder of the run.
        translator: translates with the model that is trained.
        recorder: records the attention of the same model.
        probes: the source and the reference of each probe sentence; the reference may be None.
        hyperparameters: the run's settings by dotted key, shown together with its last validation.
        first_update: number of updates made before this session. Later updates in older event files are from an
            interrupted session, and are hidden.

    Attributes:
        folders: the folders of the event files, by `training` and `validation`.
        sources: the source of each probe.
        references: the reference of each probe; empty if it is None.
        writers: TensorFlow's writers, by the keys of `folders`.
        cards: the attention cards of the probes with a reference, by the tokens of source and reference.
    """

    run: RunDirectory
    translator: Translator
    recorder: AttentionRecorder
    probes: Sequence[tuple[str, str | None]]
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    first_update: int = 0

    needed_updates = ()  # besides those that are logged, see `training.loop`

    def __post_init__(self) -> None:
        super().__init__()
        self.folders = {"training": self.run.root, "validation": self.run.validation_events}
        self.sources = [source for source, _ in self.probes]
        self.references = [reference or "" for _, reference in self.probes]
        self.writers: dict[str, Any] = {}
        self.cards: dict[tuple[str, ...], AttentionCard] = {}

    def on_train_begin(self, logs=None):
        for name, folder in self.folders.items():
            if self.first_update:
                forget_from(folder, self.first_update + 1, self.run.written)
            suffix = self.run.written.add_events(folder)
            self.writers[name] = tf.summary.create_file_writer(str(folder), filename_suffix=suffix)
        if not self.first_update:
            with self.writers["training"].as_default(step=0):
                tf.summary.graph(self.recorder.forced_graph.get_concrete_function().graph.as_graph_def())
        if self.hyperparameters:
            with self.writers["validation"].as_default(step=self.first_update):
                hparams_api.hparams(as_hyperparameters(self.hyperparameters))

    def on_train_batch_end(self, batch, logs=None):
        if logs:
            self._scalars("training", {name: value for name, value in logs.items() if name not in TIME_KEYS}, logs)

    def on_test_end(self, logs=None):
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        self._scalars("validation", validation, logs)
        if self.sources:
            with self.writers["training"].as_default(step=int(logs["update"])):
                self._write_translations()
        for writer in self.writers.values():
            writer.flush()

    def rehearse(self) -> None:
        """Does the work of `on_test_end` without writing, so that its time can be measured."""
        if self.sources:
            with tf.summary.record_if(False):
                self._write_translations()

    def on_train_end(self, logs=None):
        for writer in self.writers.values():
            writer.close()

    def show_attention(self, update: int, records: Sequence[Record]) -> None:
        """Writes the attention of the probes that have a reference.

        Args:
            update: number of updates made.
            records: the record of each probe with a reference, in order, see `ProbeArchive`.
        """
        probe_numbers = [number for number, reference in enumerate(self.references) if reference]
        with self.writers["training"].as_default(step=update):
            self._write_attention([replace(record, id=probe_numbers[record.id]) for record in records])

    def _scalars(self, run: str, values: dict[str, float], logs: dict[str, float]) -> None:
        """Writes a point of each curve at the update of `logs`. `run` is a key of `folders`."""
        with self.writers[run].as_default(step=int(logs["update"])):
            for name, value in values.items():
                section = "metrics" if name in METRIC_INFO or run == "validation" else run
                # TensorFlow refuses Python's numbers above 3e38, the perplexity of a training that diverges.
                tf.summary.scalar(f"{section}/{name}", np.float64(value), description=DESCRIPTIONS.get(name))

    def _write_translations(self) -> None:
        """Translates the probes. Writes the table of translations, and the attention of probes without a reference."""
        translations = self.translator.translate(self.sources)
        records = list(self.recorder.record(pair_translations(self.sources, self.references, translations)))
        tf.summary.text("probes", probe_table(records), description="How the model translates the probes by now.")
        if unreferenced := [record for record in records if not record.reference]:
            self._write_attention(unreferenced, measured=not any(self.references))

    def _write_attention(self, records: Sequence[Record], measured: bool = True) -> None:
        """Writes the pictures of the cross-attention of records.

        If `measured`, also writes the measures of cross-attention, averaged over the heads of each layer.
        """
        if measured:
            for layer, heads in heads_table(records).groupby("layer"):
                for name in [name for name, measure in MEASURES.items() if measure.in_tensorboard]:
                    mean = heads[name].mean()
                    if not np.isnan(mean):  # NaN if all translations are empty
                        tf.summary.scalar(f"probes/{name}, layer {layer}", mean, description=DESCRIPTIONS.get(name))
        records = [record for record in records if record.attention["cross"].size]
        cards = [self._card(record) for record in records]
        weights = [card.weights(record) for card, record in zip(cards, records, strict=True)]
        best = best_head(weights) if weights else (0, 0)
        for record, card, words in zip(records, cards, weights, strict=True):
            for name, matrix, caption, subject in pictures_of(words, best):
                png = card.png(matrix, caption)
                metadata = create_summary_metadata(display_name=None, description=describe_record(record, subject))
                tensor = tf.constant([str(card.width), str(card.height), png])
                converted = tf.compat.v1.SummaryMetadata.FromString(metadata.SerializeToString())
                tf.summary.write(f"probe {record.id}/{name}", tensor, metadata=converted)

    def _card(self, record: Record) -> AttentionCard:
        """Returns the card that draws the pictures of a record.

        The card of a sentence with a reference is made once. The card of a translation is made at each call.
        """
        if record.mode != "forced":
            return AttentionCard(record)
        key = (*record.source_tokens, "", *record.target_output_tokens)
        if key not in self.cards:
            self.cards[key] = AttentionCard(record)
        return self.cards[key]


def pictures_of(words: np.ndarray, best: tuple[int, int]) -> Iterator[tuple[str, np.ndarray, tuple[str, str], str]]:
    """Yields the pictures of a sentence in the order in which TensorBoard sorts their names.

    Args:
        words: cross-attention between words, `(L, H, T, S)`: layers, heads, target words, source words.
        best: the layer and the head that align best, see `inspection.attention_card.best_head`.

    Yields:
        The name of a picture; its weights `(T, S)`; its caption in two parts; and the phrase for `describe` that names
        its heads.
    """
    layers, heads = words.shape[:2]
    for layer in range(layers):
        subject = f"the mean over the {heads} heads of layer {layer}"
        yield f"average of layer {layer}", words[layer].mean(axis=0), (f"layer {layer}", "all heads"), subject
    if layers * heads > 1:
        subject = "the head that looks most like an alignment of the probes by then; its number is in the corner"
        yield "best head", words[best], (f"layer {best[0]}", f"head {best[1]}"), subject
    if 1 < layers * heads <= MOST_HEADS:
        for layer, head in np.ndindex(layers, heads):
            subject = f"head {head} of layer {layer}"
            yield f"layer {layer}, head {head}", words[layer, head], (f"layer {layer}", f"head {head}"), subject


def describe_record(record: Record, subject: str) -> str:
    """Returns the description of a picture of a record, in Markdown.

    `subject` is a phrase that names the heads of the picture, see `pictures_of`.
    """
    source, target = (text.translate(MARKDOWN) for text in (record.source, record.hypothesis))
    of_target = "its reference, which the model is made to read" if record.mode == "forced" else "its translation"
    return (
        f"Cross-attention: {subject}. Each row is a word that is being predicted, each column a word of the source; "
        f"from white, 0, to dark blue, 1. Move the slider through the updates, click to enlarge.\n\n"
        f"Source: {source}\n\nRows, {of_target}: {target}"
    )


def as_hyperparameters(values: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Converts values for TensorBoard's table of hyperparameters: all except bools and numbers become strings."""
    return {name: value if isinstance(value, bool | int | float) else str(value) for name, value in values.items()}


def forget_from(folder: Path, update: int, written: FileList) -> None:
    """Makes TensorBoard hide an update and all later ones in the event files of a folder, by one more event file.

    Args:
        folder: the folder. If it has no event files, nothing is written.
        update: the first update to hide.
        written: the list of the run's files, to which the new file is added.
    """
    files = sorted(folder.glob(EVENT_FILES))
    if not files:
        return
    now = time.time()
    start = Event(wall_time=now, step=update, session_log=SessionLog(status=SessionLog.SessionStatus.START))
    # Twice: TensorBoard takes the first START that it reads for the start of the run, and hides nothing.
    events = [Event(wall_time=now, file_version="brain.Event:2"), start, start]
    path = files[-1].with_name(f"{files[-1].name}.resumed")  # read after all earlier files, and before any later one
    written.add(path)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for event in events:
            writer.write(event.SerializeToString())


def probe_table(records: Sequence[Record]) -> str:
    """Returns a Markdown table of the sources, references and translations of the probe sentences."""
    rows = ["| # | source | reference | translation |", "| --- | --- | --- | --- |"]
    for record in records:
        cells = (str(record.id), record.source, record.reference or "", record.hypothesis)
        rows.append("| " + " | ".join(cell.translate(MARKDOWN) for cell in cells) + " |")
    return "\n".join(rows)


NAME = "subwords"
_ESCAPED_CATEGORIES = ("Cc", "Cs")  # control characters, and lone surrogates, which UTF-8 cannot encode
COUNTED_TOKENS = 10_000_000  # the first tokens of each side, whose ids are counted


def write_projector(
    run: RunDirectory, pieces: Sequence[str], vectors: np.ndarray, counts: Mapping[str, np.ndarray] | None = None
) -> None:
    """Writes the files of TensorBoard's projector: vectors, a table with a row for each vector, and the config.

    Args:
        run: the folder of the run.
        pieces: the spelling of each id in the vocabulary.
        vectors: the vector of each id, float `(V, D)`, for a vocabulary of V subwords and a model of width D.
        counts: for each side, by its language: the number of times that each id occurs in the text, int `(V,)`. None if
            the numbers are not known.
    """
    config = ProjectorConfig()
    vectors_path = f"{run.projector.name}/{NAME}.tsv"
    names_path = f"{run.projector.name}/{NAME}_names.tsv"
    config.embeddings.add(tensor_name=NAME, tensor_path=vectors_path, metadata_path=names_path)
    rows = ("\t".join(f"{value:.5g}" for value in vector) for vector in vectors.astype(float))
    write_atomically(run.root / vectors_path, "".join(f"{row}\n" for row in rows).encode())
    table = zip(map(_spell_name, pieces), *_columns(pieces, counts or {}), strict=True)
    lines = [("subword", "characters", "language", "log10 of frequency"), *table]
    write_atomically(run.root / names_path, "".join("\t".join(map(str, line)) + "\n" for line in lines).encode())
    write_atomically(run.projector_config, text_format.MessageToString(config).encode())


def _columns(pieces: Sequence[str], counts: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Returns three columns: each subword's length in characters, its language, and the log10 of its frequency.

    The language is the key of `counts` with at least nine tenths of the occurrences of the subword. It is `both` if
    there is no such key, and `none` if the subword does not occur.
    """
    sides = np.array([*counts.values(), np.zeros(len(pieces))])[:, : len(pieces)]
    total = sides.sum(axis=0)
    names = np.array([*counts, "none"])
    languages = np.where(total == 0, "none", np.where(sides.max(axis=0) >= 0.9 * total, names[sides.argmax(0)], "both"))
    lengths = [len(piece.replace("\u2581", "")) for piece in pieces]
    return [lengths, languages.tolist(), np.log10(np.maximum(total, 1)).round(2).tolist()]


def count_ids(ids: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Returns the frequency of each id in the first `COUNTED_TOKENS` tokens, int `(vocabulary_size,)`."""
    return np.bincount(ids[:COUNTED_TOKENS], minlength=vocabulary_size)


def _spell_name(piece: str) -> str:
    """Returns the spelling of a subword for TensorBoard, with white space and control characters escaped.

    TensorBoard would skip a line of white space, which shifts all names after it. It would read a first line with a tab
    as headings.
    """
    if not any(character.isprintable() and character != " " for character in piece):
        return "".join(map(_escape, piece)) or "''"
    return "".join(_escape(character) if _needs_escape(character) else character for character in piece)


def _needs_escape(character: str) -> bool:
    return character != " " and (character.isspace() or category(character) in _ESCAPED_CATEGORIES)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"

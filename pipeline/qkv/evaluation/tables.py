"""The tables of an evaluation, written and read: measures of heads, scores of readouts and `translations.tsv`."""

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..alignment.head_scores import ReadoutScores
from ..alignment.link_probabilities import write_calibration
from ..alignment.readout import AlignmentReadout
from ..errors import InputError
from ..files.atomic import write_atomically
from ..files.run_directory import EvaluationDirectory
from ..inspection.head_tables import HeadsMeter, add_types
from ..inspection.head_types import HeadTypesMeter, describe_types
from ..inspection.measures import measure_site, sentence_row
from ..inspection.record import Record
from ..metrics.bleu import score_sentences
from ..text.corpora.word_links import GoldAlignment, Link, write_pharaoh

if TYPE_CHECKING:
    from ..decoding.translator import Translation


def write_csv(table: pd.DataFrame, path: Path, float_format: str | None = None) -> None:
    """Writes a table as CSV. The file appears whole or not at all; a symbolic link at `path` is replaced.

    Args:
        table: the table. Its index is not written.
        path: the file.
        float_format: the format of floats, such as `%.6f`; None for all digits.
    """
    write_atomically(path, csv_of(table, float_format))


def csv_of(table: pd.DataFrame, float_format: str | None = None) -> bytes:
    """Returns a table as CSV, UTF-8. Carriage returns become spaces, since readers take them for line ends.

    Args:
        table: the table. Its index is left out.
        float_format: the format of floats, such as `%.6f`; None for all digits.
    """
    table = table.replace("\r", " ", regex=True)
    return bytes(table.to_csv(index=False, lineterminator="\n", float_format=float_format).encode())


def read_result_csv(
    path: Path,
    columns: Mapping[str, type],
    *,
    optional: Collection[str] = (),
    command: str = "evaluate.py",
    **options: Any,
) -> pd.DataFrame:
    """Reads a CSV file that a command wrote.

    Args:
        path: the CSV file.
        columns: the type of each column that the file must have.
        optional: the names of columns of floats that the file may have.
        command: the command that wrote the file, for messages.
        options: further arguments of `pandas.read_csv`.

    Returns:
        The table, with all columns of the file.

    Raises:
        InputError: the file cannot be read; or a column is missing or has another type.
    """
    try:
        table = pd.read_csv(path, **options).astype(columns)
        return table.astype({name: float for name in optional if name in table})
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that {command} writes: {error}; run {command} again") from None


class SetTables:
    """The tables of an evaluation that are computed from the records of its archive. The records are added one by one.

    Args:
        gold: the gold alignment of each sentence by its id; None if there are none.
        readout: the readout whose links are written; None to write no links.
    """

    def __init__(self, gold: Mapping[int, GoldAlignment] | None, readout: AlignmentReadout | None) -> None:
        self._readout = readout
        self._heads, self._types = HeadsMeter(), HeadTypesMeter(gold)
        self._rows: list[dict[str, Any]] = []
        self._links: list[Collection[Link]] = []

    def add(self, record: Record) -> dict[str, Any]:
        """Adds a sentence to all tables, and returns its row of `sentences.csv`."""
        measures = measure_site(record)
        self._rows.append(sentence_row(record, measures))
        self._heads.add(record, measures)
        self._types.add(record)
        if self._readout is not None:
            calibrated = self._readout.calibration is not None
            self._links.append(self._readout.link_probabilities(record) if calibrated else self._readout.links(record))
        return self._rows[-1]

    def write(self, folder: EvaluationDirectory) -> dict[str, dict[str, Any]]:
        """Writes `heads.csv`, `head_types.csv`, `sentence_heads.csv` and `sentences.csv`.

        If there is a readout, its links are written in Pharaoh format, too. If the readout has a calibration, the
        probabilities of the links are written to a further file.

        Args:
            folder: the folder of the evaluation.

        Returns:
            The type of each head, for the viewer's page, see `inspection.head_types.describe_types`.
        """
        types = self._types.table()
        types_for_pages = describe_types(types)
        heads = add_types(self._heads.table_with_intervals(), types)
        sentence_heads = self._heads.sentences()
        write_csv(types, folder.head_types)
        write_csv(heads, folder.heads)
        write_csv(sentence_heads, folder.sentence_heads, float_format="%.6f")
        write_csv(pd.DataFrame(self._rows), folder.sentences, float_format="%.4f")
        if self._readout is not None:
            write_pharaoh(folder.alignments, map(set, self._links))
            if self._readout.calibration:
                write_pharaoh(folder.link_probabilities, self._links)
        return types_for_pages


def write_readout_scores(readouts: ReadoutScores, folder: EvaluationDirectory) -> None:
    """Writes the tables of the scores of readouts, and the calibration of the readout if it has one.

    With gold alignments the tables are `head_alignment.csv` and `sentence_alignment.csv`; with gold alignments and a
    calibration also `link_reliability.csv`. Without gold alignments there are no tables.
    """
    paths = folder.head_alignment, folder.sentence_alignment, folder.link_reliability
    for path, table in zip(paths, (readouts.table, readouts.sentences, readouts.reliability), strict=True):
        if table is not None:
            write_csv(table, path)
    if readouts.readout and readouts.readout.calibration:
        write_calibration(folder.link_calibration, readouts.readout.calibration)


TEXTS = ("source", "reference", "translation")
"""The columns of text in `translations.tsv`."""


def write_translations(
    path: Path,
    source: Sequence[str],
    reference: Sequence[str] | None,
    translations: Sequence["Translation"],
    bleu_tokenizer: str,
    confidences: Sequence[float] | None = None,
) -> pd.DataFrame:
    """Writes `translations.tsv`, with the texts, scores and lengths of each sentence.

    The file appears whole or not at all. Tabs and line breaks in a text are replaced by spaces, and quotation marks
    have no special meaning.

    Args:
        path: the file.
        source: the source sentences.
        reference: the reference of each sentence; None to write neither references nor sentence scores.
        translations: the translation of each sentence.
        bleu_tokenizer: the tokenizer of sentence BLEU, see `metrics.bleu.make_bleu`.
        confidences: the confidence of each translation; None to write none.

    Returns:
        The table, with the unchanged texts.
    """
    texts = [translation.text for translation in translations]
    table = pd.DataFrame(
        {
            "id": range(len(source)),
            "source": source,
            "translation": texts,
            "log_probability": [sum(translation.log_probabilities) for translation in translations],
            "score": [translation.score for translation in translations],
            "tokens": [len(translation.ids) for translation in translations],
            "truncated": [translation.truncated for translation in translations],
        }
    )
    if confidences is not None:
        table["confidence"] = list(confidences)
    if reference is not None:
        table.insert(2, "reference", list(reference))
        for name, scores in score_sentences(texts, reference, tokenizer=bleu_tokenizer).items():
            table[f"sentence_{name}"] = scores
    written = table.replace({name: r"[\t\r\n]" for name in TEXTS if name in table}, " ", regex=True)
    text = written.to_csv(sep="\t", index=False, lineterminator="\n", quoting=csv.QUOTE_NONE, float_format="%.4f")
    write_atomically(path, text.encode())
    return table


def read_translations(path: Path) -> pd.DataFrame:
    """Reads a table of `write_translations`. Texts are strings, sentence scores are floats.

    Raises:
        InputError: the file cannot be read; it has no column `source` or `translation`; its lines have different
            lengths; or a sentence score is not a finite number.
    """
    scores = ("sentence_bleu", "sentence_chrf")
    form = {"sep": "\t", "quoting": csv.QUOTE_NONE, "keep_default_na": False, "dtype": dict.fromkeys(TEXTS, str)}
    table = read_result_csv(path, {}, optional=scores, command="evaluate.py", **form)
    problem = None
    if not isinstance(table.index, pd.RangeIndex) or table.filter(TEXTS).isna().any(axis=None):
        problem = "lines of other lengths"
    elif not np.isfinite(table.filter(scores).to_numpy(float)).all():
        problem = "scores that are no numbers"
    elif missing := [name for name in ("source", "translation") if name not in table]:
        problem = f"no column {missing[0]!r}"
    if problem:
        raise InputError(f"{path}: not the table that evaluate.py writes: {problem}; evaluate the run again")
    return table

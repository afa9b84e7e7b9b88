"""Makes, writes and reads the tables of an evaluation: measures, scores of readouts, `translations.tsv`."""

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
    """Writes a table as CSV, whole or not at all. A symbolic link at `path` is replaced by a file."""
    write_atomically(path, csv_of(table, float_format))


def csv_of(table: pd.DataFrame, float_format: str | None = None) -> bytes:
    """Returns a table as CSV. A carriage return in a field becomes a space, since readers take it for a line end."""
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
        columns: the types of the columns that the file must have.
        optional: names of columns that hold floats if the file has them.
        command: the command that wrote the file, for messages.
        options: further arguments of `pandas.read_csv`.

    Raises:
        InputError: the file cannot be read, or a column is missing or has another type.
    """
    try:
        table = pd.read_csv(path, **options).astype(columns)
        return table.astype({name: float for name in optional if name in table})
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that {command} writes: {error}; run {command} again") from None


class SetTables:
    """Collects the tables of an evaluation from the records of an archive, in one pass.

    Args:
        gold: the gold alignments by the ids of their sentences; None if there are none.
        readout: the readout that extracts links from attention; None writes no links.
    """

    def __init__(self, gold: Mapping[int, GoldAlignment] | None, readout: AlignmentReadout | None) -> None:
        self._readout = readout
        self._heads, self._types = HeadsMeter(), HeadTypesMeter(gold)
        self._rows: list[dict[str, Any]] = []
        self._links: list[Collection[Link]] = []

    def add(self, record: Record) -> dict[str, Any]:
        """Adds a sentence and returns its row of `sentences.csv`."""
        measures = measure_site(record)
        self._rows.append(sentence_row(record, measures))
        self._heads.add(record, measures)
        self._types.add(record)
        if self._readout is not None:
            calibrated = self._readout.calibration is not None
            self._links.append(self._readout.link_probabilities(record) if calibrated else self._readout.links(record))
        return self._rows[-1]

    def write(self, folder: EvaluationDirectory) -> dict[str, dict[str, Any]]:
        """Writes `heads.csv`, `head_types.csv`, `sentence_heads.csv`, `sentences.csv` and, with a readout, the links.

        Returns:
            The types of heads for pages, see `describe_types`.
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
    """Writes the scores of readouts.

    With gold alignments these are `head_alignment.csv` and `sentence_alignment.csv`. If the probabilities of links are
    calibrated, also the calibration and `link_reliability.csv`.
    """
    paths = folder.head_alignment, folder.sentence_alignment, folder.link_reliability
    for path, table in zip(paths, (readouts.table, readouts.sentences, readouts.reliability), strict=True):
        if table is not None:
            write_csv(table, path)
    if readouts.readout and readouts.readout.calibration:
        write_calibration(folder.link_calibration, readouts.readout.calibration)


TEXTS = ("source", "reference", "translation")


def write_translations(
    path: Path,
    source: Sequence[str],
    reference: Sequence[str] | None,
    translations: Sequence["Translation"],
    bleu_tokenizer: str,
) -> pd.DataFrame:
    """Writes `translations.tsv`, with the texts, scores and lengths of each sentence, whole or not at all.

    In the file, quotation marks are plain text, and tabs within a text are replaced by spaces.

    Args:
        path: the file.
        source: the source sentences.
        reference: the references; None writes no sentence scores.
        translations: a translation of each sentence.
        bleu_tokenizer: the tokenizer of sentence BLEU, see `metrics.bleu.make_bleu`.

    Returns:
        The table, with the texts unchanged.
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
    if reference is not None:
        table.insert(2, "reference", list(reference))
        for name, scores in score_sentences(texts, reference, tokenizer=bleu_tokenizer).items():
            table[f"sentence_{name}"] = scores
    written = table.replace({name: r"[\t\r\n]" for name in TEXTS if name in table}, " ", regex=True)
    text = written.to_csv(sep="\t", index=False, lineterminator="\n", quoting=csv.QUOTE_NONE, float_format="%.4f")
    write_atomically(path, text.encode())
    return table


def read_translations(path: Path) -> pd.DataFrame:
    """Reads the table that `write_translations` wrote. Texts are strings, and sentence scores are floats.

    Raises:
        InputError: the file is damaged.
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

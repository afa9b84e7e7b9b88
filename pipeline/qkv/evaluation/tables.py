"""The tables of an evaluation: those made from its archive alone, and `translations.tsv`, with a row for each sentence,
made, written and read back."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import sacrebleu

from ..alignment.link_probabilities import write_calibration
from ..alignment.readout import AlignmentReadout, ProbableReadout
from ..errors import InputError
from ..files.atomic import write_atomically
from ..files.json import write_json
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import AttentionArchive
from ..inspection.head_tables import HeadsMeter, add_types
from ..inspection.head_types import TYPED_SITES, HeadTypesMeter, named_heads
from ..inspection.measures import measure_site, sentence_row
from ..inspection.record import Record
from ..metrics.bleu import make_bleu
from ..text.corpora.word_links import GoldAlignment, write_pharaoh
from .readout_scores import ReadoutScores, aligned_records

if TYPE_CHECKING:
    from ..decoding.translator import Translation


def write_csv(table: pd.DataFrame, path: Path, float_format: str | None = None) -> None:
    """Writes a table whole or not at all; a link is replaced."""
    write_atomically(path, csv_of(table, float_format))


def csv_of(table: pd.DataFrame, float_format: str | None = None) -> bytes:
    """Returns a table as CSV. A carriage return in a field, which readers take for a line end, becomes a space."""
    table = table.replace("\r", " ", regex=True)
    return bytes(table.to_csv(index=False, lineterminator="\n", float_format=float_format).encode())


def write_measures(
    archive: AttentionArchive, gold: Sequence[GoldAlignment] | None, folder: EvaluationDirectory
) -> list[dict[str, Any]]:
    """Writes heads.csv, head_types.csv, sentence_heads.csv and sentences.csv, which are measured in one pass.

    Args:
        archive: the sentences.
        gold: their gold alignments in order, if there are any.
        folder: where the files go.

    Returns:
        The sentences' rows.
    """
    heads, rows = HeadsMeter(), []
    types = HeadTypesMeter(None if gold is None else dict(zip(archive.ids, gold, strict=False)))
    for record in archive.records([site for site in TYPED_SITES if site in archive.manifest["sites"]]):
        measures = measure_site(record)
        heads.add(record, measures)
        types.add(record)
        rows.append(sentence_row(record, measures))
    table = types.table()
    write_csv(table, folder.head_types)
    write_csv(add_types(heads.table_with_intervals(), named_heads(table)), folder.heads)
    write_csv(heads.sentences(), folder.sentence_heads, float_format="%.6f")
    write_csv(pd.DataFrame(rows), folder.sentences, float_format="%.4f")
    return rows


def write_alignment_scores(readouts: ReadoutScores, folder: EvaluationDirectory) -> None:
    """Writes head_alignment.csv and sentence_alignment.csv, where there are gold alignments; and the calibration of the
    probabilities of links, with link_reliability.csv, where they are calibrated."""
    for table, path in (
        (readouts.table, folder.head_alignment),
        (readouts.sentences, folder.sentence_alignment),
        (readouts.reliability, folder.link_reliability),
    ):
        if table is not None:
            write_csv(table, path)
    if isinstance(readouts.readout, ProbableReadout):
        write_calibration(folder.link_calibration, readouts.readout.calibration)


def write_alignments(records: Iterable[Record], readout: AlignmentReadout, path: Path) -> None:
    """Writes the word links of every record in Pharaoh format."""
    write_pharaoh(path, (readout.links(record) for record in records))


def write_link_probabilities(archive: AttentionArchive, readout: AlignmentReadout, folder: EvaluationDirectory) -> None:
    """Writes the word links of an archive with their probabilities, `i-j:0.93`, where the readout has some."""
    if isinstance(readout, ProbableReadout):
        records = archive.records(["cross", readout.site])
        write_pharaoh(folder.link_probabilities, (readout.link_probabilities(record) for record in records))


def write_archive_files(
    archive: AttentionArchive,
    gold: Sequence[GoldAlignment] | None,
    readouts: ReadoutScores,
    metrics: dict[str, Any],
    folder: EvaluationDirectory,
) -> None:
    """Writes everything that is measured of an archive, `metrics.json` last."""
    folder.root.mkdir(parents=True, exist_ok=True)
    write_measures(archive, gold, folder)
    write_alignment_scores(readouts, folder)
    if readouts.readout is not None:
        write_alignments(aligned_records(archive), readouts.readout, folder.alignments)
    write_json(folder.metrics, metrics)


TEXTS = ("source", "reference", "translation")


def translations_table(
    source: Sequence[str],
    reference: Sequence[str] | None,
    translations: Sequence["Translation"],
    *,
    bleu_tokenizer: str,
) -> pd.DataFrame:
    """Makes the table: a row of texts, scores and lengths for each sentence.

    Args:
        source: the sentences.
        reference: their given translations; None for a table without sentence scores.
        translations: the model's.
        bleu_tokenizer: how BLEU splits text into words, see `make_bleu`.
    """
    table = pd.DataFrame(
        {
            "id": range(len(source)),
            "source": source,
            "translation": [translation.text for translation in translations],
            "log_probability": [sum(translation.log_probabilities) for translation in translations],
            "score": [translation.score for translation in translations],
            "tokens": [len(translation.ids) for translation in translations],
            "truncated": [translation.truncated for translation in translations],
        }
    )
    if reference is not None:
        table.insert(2, "reference", list(reference))
        bleu, chrf = make_bleu(bleu_tokenizer, effective_order=True), sacrebleu.CHRF()
        pairs = list(zip(table["translation"], reference, strict=True))
        table["sentence_bleu"] = [bleu.sentence_score(text, [one]).score for text, one in pairs]
        table["sentence_chrf"] = [chrf.sentence_score(text, [one]).score for text, one in pairs]
    return table


def write_translations(table: pd.DataFrame, path: Path) -> None:
    """Writes the table whole or not at all. Quotation marks are plain text, and tabs in a field become spaces."""
    table = table.copy()
    for name in TEXTS:
        if name in table:
            table[name] = table[name].str.replace(r"[\t\r\n]", " ", regex=True)
    text = table.to_csv(sep="\t", index=False, lineterminator="\n", quoting=csv.QUOTE_NONE, float_format="%.4f")
    write_atomically(path, text.encode())


def read_translations(path: Path) -> pd.DataFrame:
    """Reads the table back, with text as text and sentence scores as numbers.

    Raises:
        InputError: the file is damaged.
    """
    try:
        table = pd.read_csv(
            path, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False, dtype=dict.fromkeys(TEXTS, str)
        )
        table = table.astype({name: float for name in ("sentence_bleu", "sentence_chrf") if name in table})
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that evaluate.py writes: {error}; evaluate the run again") from None
    texts = [name for name in TEXTS if name in table]
    scores = [name for name in ("sentence_bleu", "sentence_chrf") if name in table]
    if not isinstance(table.index, pd.RangeIndex) or table[texts].isna().any(axis=None):
        raise InputError(f"{path}: not the table that evaluate.py writes: lines of other lengths; evaluate again")
    if not np.isfinite(table[scores].to_numpy()).all():
        raise InputError(f"{path}: not the table that evaluate.py writes: scores that are no numbers; evaluate again")
    missing = [name for name in ("source", "translation") if name not in table]
    if missing:
        raise InputError(f"{path}: not the table that evaluate.py writes: no column {missing[0]!r}; evaluate again")
    return table

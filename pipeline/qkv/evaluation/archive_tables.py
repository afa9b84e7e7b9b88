"""The tables of an evaluation that are made from its archive alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..alignment.link_probabilities import write_calibration
from ..alignment.readout import AlignmentReadout, ProbableReadout
from ..files.atomic import write_atomically
from ..files.json import write_json
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import AttentionArchive
from ..inspection.head_tables import HeadsMeter, add_types
from ..inspection.head_types import TYPED_SITES, HeadTypesMeter, named_heads
from ..inspection.measures import measure_site, sentence_row
from ..inspection.record import Record
from ..text.corpora.word_links import GoldAlignment, write_pharaoh
from .archive_scores import ReadoutScores, aligned_records


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

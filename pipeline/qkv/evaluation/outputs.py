"""The files of an evaluation: each is written by one function, from the archive's records or a table."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..decoding.translator import Translation
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import AttentionArchive
from ..inspection.head_types import describe_types, read_head_types
from ..inspection.heatmap import draw_heatmaps
from ..inspection.recorder import AttentionRecorder, ForcedPair, pair_translations
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import write_viewer
from .experiments import write_perturbation, write_spectra
from .page import page_facts
from .readout_scores import ReadoutScores
from .request import EvaluationRequest
from .tables import (
    translations_table,
    write_alignment_scores,
    write_alignments,
    write_link_probabilities,
    write_measures,
    write_translations,
)

OWN_SENTENCES_DRAWN = 3
PAGE_SENTENCES = 1000  # of a set; `qkv view --sentences` shows more
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outputs:
    """The data from which the files are written; those of an ensemble are of one of its models.

    Args:
        request: what was asked for.
        folder: where the files go.
        archive: the recorded attention.
        sites: the sites that the archive holds, in the order in which the page lists them.
        translations: of the set's sentences.
        readouts: the alignment readout and its scores.
        recorder: records the run's attention over the probes.
        probes: the config's probes with their translations.
        metrics: what `metrics.json` holds so far.
    """

    request: EvaluationRequest
    folder: EvaluationDirectory
    archive: AttentionArchive
    sites: Sequence[str]
    translations: Sequence[Translation]
    readouts: ReadoutScores
    recorder: AttentionRecorder
    probes: Sequence[ForcedPair]
    metrics: Mapping[str, Any]


def write_outputs(outputs: Outputs, pairs: Sequence[ForcedPair]) -> dict[str, float]:
    """Writes every file but the archive and `metrics.json`, and returns the seconds of those that take long.

    The page opens at the head from which alignments are read; where that is a mean of heads, or there is none, at the
    head that tells most.
    """
    request, folder = outputs.request, outputs.folder
    run = request.run
    table = write_translations_of(request, outputs.translations, folder)
    rows = write_measured(outputs)
    viewer = fill_viewer(outputs, run.directory.root.name, rows, table)
    readout = outputs.readouts.readout
    shown: dict[str, Any] = {"side": readout.side} if readout else {}
    if readout and readout.head != "mean":
        shown |= {"site": readout.site, "layer": readout.layer, "head": readout.head}
    write_viewer(folder.viewer, f"{viewer.name}, {request.data.name}", [viewer], opens_at=shown)
    if not request.perturbed_sentences:
        return {}
    return write_perturbation(run, pairs[: request.perturbed_sentences], folder)


def write_translations_of(
    request: EvaluationRequest, translations: Sequence[Translation], folder: EvaluationDirectory
) -> pd.DataFrame:
    """Writes translations.tsv, and returns the table."""
    data, tokenizer = request.data, request.run.config.data.scoring_tokenizer
    table = translations_table(data.source, data.reference, translations, bleu_tokenizer=tokenizer)
    write_translations(table, folder.translations)
    return table


def write_measured(outputs: Outputs) -> list[dict[str, Any]]:
    """Writes what is measured and drawn of one model's attention, and returns the rows of sentences.csv."""
    request, folder, archive, readouts = outputs.request, outputs.folder, outputs.archive, outputs.readouts
    run, data = request.run, request.data
    write_alignment_scores(readouts, folder)
    rows = write_measures(archive, data.gold.gold if data.gold else None, folder)
    if readouts.readout is not None:
        write_alignments(archive.records(["cross", readouts.readout.site]), readouts.readout, folder.alignments)
        write_link_probabilities(archive, readouts.readout, folder)
    # Text of one's own is evaluated to be looked at; of a set, one sentence shows where there are no probes.
    drawn = OWN_SENTENCES_DRAWN if data.own else int(not run.config.inspection.probes)
    draw_heatmaps(archive.records(["cross"], drawn), folder.heatmaps, "sentence")
    if outputs.probes:
        draw_heatmaps(outputs.recorder.record(outputs.probes, sites=["cross"]), folder.heatmaps, "probe")
    write_spectra(run.model, folder.spectra)
    return rows


def translate_probes(request: EvaluationRequest) -> list[ForcedPair]:
    """Translates the config's probes, unless text of one's own is evaluated."""
    run, probes = request.run, request.run.config.inspection.probes
    if not probes or request.data.own:
        return []
    sources = [probe.source for probe in probes]
    references = [probe.reference or "" for probe in probes]
    found = run.translator.translate_ids(run.tokenizer.encode(sources))  # the config has them as the model reads them
    return list(pair_translations(sources, references, [one[0] for one in found], run.config.decoding.kind))


def fill_viewer(outputs: Outputs, name: str, rows: Sequence[dict[str, Any]], table: pd.DataFrame) -> ViewerRun:
    """Returns the first sentences as the page holds them.

    Args:
        outputs: of one model.
        name: what the page calls it.
        rows: of sentences.csv.
        table: of the translations.
    """
    run, data = outputs.request.run, outputs.request.data
    rows = rows[:PAGE_SENTENCES]
    scores = table["sentence_bleu"].tolist() if "sentence_bleu" in table else ()
    viewer = ViewerRun(
        name,
        data.gold.gold if data.gold else (),
        scores,
        run.detokenize if run.config.data.tokenized else None,
        facts=page_facts(run.config, run.model.count_params(), outputs.metrics),
        sentences_in_set=len(data.source),
        types=describe_types(read_head_types(outputs.folder.head_types)),
    )
    for record, row in zip(outputs.archive.records(outputs.sites, len(rows)), rows, strict=True):
        viewer.add(record, row)
    return viewer

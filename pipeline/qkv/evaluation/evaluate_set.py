"""Evaluates a run on a set: translates it, scores the translations, records attention, and writes all results.

A model reads each pair once. Sources with their references give the likelihood and the alignment error rates. Sources
with the targets that are shown, translations or references, give the archive with its tables, pictures and page. The
models of an ensemble translate together, and then each of them reads the pairs.
"""

import logging
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd

from ..alignment.gold import alignment_sites
from ..alignment.head_scores import GoldScores, ReadoutScores
from ..alignment.readout import MEAN_HEAD, AlignmentReadout
from ..alignment.readout_selection import choose_readout, saved_readout
from ..decoding.translator import Translation
from ..files.atomic import write_output
from ..files.json import write_json
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import ArchiveWriter, AttentionArchive
from ..inspection.attention_figure import draw_heatmaps
from ..inspection.recorder import AttentionRecorder, ForcedPair, pair_translations
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import viewer_page
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import Likelihood, LikelihoodSum
from ..run.ensemble import TrainedEnsemble
from ..run.manifest import archive_manifest
from ..run.processes import RunParts
from ..run.trained_run import TrainedRun
from ..text.tokens.words import WordUnits
from .confidence import with_hypotheses
from .experiments import EXPERIMENT_RUNNERS, write_spectra
from .page import PAGE_SENTENCES, make_viewer_run
from .request import EvaluationRequest, EvaluationSet, TokenisedSet
from .resumable import evaluation_folder, fingerprint, record_resumably, translate_resumably
from .tables import SetTables, write_readout_scores, write_translations

OWN_SENTENCES_DRAWN = 3
"""The number of heat maps of text of the user."""

log = logging.getLogger(__name__)


def evaluate_set(request: EvaluationRequest) -> dict[str, Any]:
    """Translates a set, scores the translations, records attention, and writes the results into the run.

    The results are in the run's folder `evaluations/NAME`; NAME is the name of the request's set. An interrupted
    evaluation is continued, see `evaluation.resumable`.

    Returns:
        The content of `metrics.json`.

    Raises:
        InputError: an experiment does not suit the model; the saved readout of the run is damaged; or the folder cannot
            be written.
    """
    started = time.monotonic()
    run, data = request.run, request.data
    experiments = [EXPERIMENT_RUNNERS[name] for name in request.experiments]
    for experiment in experiments:
        experiment.check(run.model)  # before anything is written
    is_ensemble = isinstance(run, TrainedEnsemble)
    saved = None if is_ensemble or data.choose_on else saved_readout(run)
    text = TokenisedSet.of(data, run.tokenizer)
    banned = run.banned and run.banned.texts
    digest = fingerprint(run, set=data, saved=saved, force_references=request.force_references, banned=banned)
    with evaluation_folder(run.directory.evaluation(data.name), digest) as folder:
        log.info("%s: translating %d sentences", data.name, len(data.source))
        began_search = time.monotonic()
        translations = translate_resumably(run.translator, text, folder.parts, request.processes)
        metrics = _describe(request, translations) | {"translation_seconds": _seconds_since(began_search)}
        references = list(text.pair_references(run.config.model.max_positions))
        pairs = references
        if not request.force_references:
            pairs = list(pair_translations(data.source, data.reference, translations, run.config.decoding.kind))
        tokenizer = run.config.data.scoring_tokenizer
        confidences = _rate(request, text)
        table = write_translations(
            folder.translations, data.source, data.reference, translations, tokenizer, confidences
        )
        texts = [translation.text for translation in translations]
        if data.reference is not None:
            metrics |= score_translations(texts, data.reference, tokenizer=tokenizer)
        if request.confidence and "sentence_chrf" in table:
            metrics["confidence"] = request.confidence.measure(
                *(table[name].tolist() for name in ("confidence", "sentence_chrf"))
            )
        units = run.reader.segmenter.units(data.source, data.reference or texts)
        run.reader.segmenter.log_units(units)

        if is_ensemble:  # it has no attention: its models have
            reader = _Reader(run, data, run.recorder((), units))
        else:
            sites_of_experiments = list(chain.from_iterable(experiment.sites for experiment in experiments))
            reader = _make_reader(run, data, units, saved, more_sites=sites_of_experiments)
        likelihood, readouts = _read_references(reader, references)
        if data.reference is not None and likelihood is not None:
            metrics |= measure_all(MetricInputs(texts, data.reference, likelihood, tokenizer))
            metrics["sentences_too_long_for_loss"] = likelihood.too_long
        metrics["scores_seconds"] = _seconds_since(started)
        if is_ensemble:
            metrics |= _evaluate_members(request, text, pairs, units, table, folder, metrics)
        else:
            metrics |= {"alignment": readouts.metrics} if readouts.metrics else {}
            viewer = make_viewer_run(run, data, run.directory.root.name, table, metrics)
            probes = _translate_probes(request)
            _read_targets(reader, pairs, probes, readouts, folder, viewer, request.processes)
            _write_page(request, [viewer], readouts.readout, folder)
            for experiment in experiments:
                metrics |= experiment.run(request, text, pairs, reader.recorder, folder)
        metrics["seconds"] = _seconds_since(started)
        shutil.rmtree(folder.parts)
        write_json(folder.metrics, metrics)  # last, because it marks the evaluation as complete
    return metrics


def _seconds_since(started: float) -> float:
    """Returns the seconds since a time of `time.monotonic`, rounded to hundredths."""
    return round(time.monotonic() - started, 2)


def _rate(request: EvaluationRequest, text: TokenisedSet) -> list[float] | None:
    """Returns the confidence of each translation of a set; None if the request has none. It searches once more."""
    if request.confidence is None:
        return None
    source_ids = [text.source[row].tolist() for row in range(len(text.data.source))]
    n_best_lists = with_hypotheses(request.run).translator.translate_ids(source_ids)
    return request.confidence.of(n_best_lists, request.run.tokenizer)


def _describe(request: EvaluationRequest, translations: Sequence[Translation]) -> dict[str, Any]:
    """Returns the entries of `metrics.json` that describe the run, the set and the search."""
    run, data = request.run, request.data
    entries: dict[str, Any] = {
        "run": run.directory.root.name,
        "set": data.set_name,
        "name": data.name,
        "mode": "forced" if request.force_references else "translated",
        "checkpoint": run.weights_name,
        "sentences": len(data.source),
        "search": run.config.decoding.kind,
        "decoding": run.config.decoding.model_dump(),
        "truncated": sum(translation.truncated for translation in translations),
    }
    constraints = {"with_prefix": data.prefixes, "with_required": data.required}
    entries |= {name: sum(map(bool, rows)) for name, rows in constraints.items() if rows is not None}
    if run.banned is not None:
        entries["banned"] = run.banned.texts
    return entries


@dataclass(frozen=True)
class _Reader:
    """A model that reads the pairs of a set: the model of the evaluated run, or a model of the evaluated ensemble.

    - run: the run of the model.
    - data: the set.
    - recorder: records the attention of the model.
    - compared_sites: the sites from which links are read to score readouts; empty if no readouts are scored.
    - saved: the saved readout of the run, see `alignment.readout_selection.saved_readout`; None if there is none.
    - ensemble: the names of all models of the ensemble; empty if the run is evaluated by itself.
    """

    run: TrainedRun
    data: EvaluationSet
    recorder: AttentionRecorder
    compared_sites: tuple[str, ...] = ()
    saved: AlignmentReadout | None = None
    ensemble: tuple[str, ...] = ()


def _make_reader(
    run: TrainedRun,
    data: EvaluationSet,
    units: WordUnits,
    saved: AlignmentReadout | None,
    more_sites: Sequence[str] = (),
    ensemble: tuple[str, ...] = (),
) -> _Reader:
    """Returns the reader of a run. Its recorder records the sites of the config, of the readouts and `more_sites`.

    If there are neither gold alignments nor a saved readout, no readouts are scored.
    """
    has_readout = any(origin is not None for origin in (data.gold, data.choose_on, saved))
    compared_sites = alignment_sites(run.config) if has_readout else ()
    recorder = run.recorder([*run.config.inspection.attention, *compared_sites, *more_sites], units)
    return _Reader(run, data, recorder, compared_sites, saved, ensemble)


def _translate_probes(request: EvaluationRequest) -> list[ForcedPair]:
    """Translates the probes of the config. Returns an empty list if text of the user is evaluated."""
    run = request.run
    probes = run.config.inspection.probes
    if not probes or request.data.is_own_text:
        return []
    sources = [probe.source for probe in probes]
    references = [probe.reference or "" for probe in probes]
    # The config has probes in the form in which the model reads them.
    n_best_lists = run.translator.translate_ids(run.tokenizer.encode(sources))
    translations = [n_best[0] for n_best in n_best_lists]
    return list(pair_translations(sources, references, translations, run.config.decoding.kind))


def _read_references(reader: _Reader, references: Iterable[ForcedPair]) -> tuple[Likelihood | None, ReadoutScores]:
    """Reads each source with its reference.

    The readout is chosen on the choice set of the data, or else on the references themselves.

    Args:
        reader: the model.
        references: the pairs of sources and references.

    Returns:
        `(likelihood, readouts)`: the likelihood of the references, or None if there are no references; and the readout
        with its scores. The readout and its scores are None for an ensemble.
    """
    run, data, sites = reader.run, reader.data, reader.compared_sites
    readout = reader.saved
    if sites and data.choose_on:
        readout = choose_readout(run, data.choose_on, reader.recorder.sites, saves=not reader.ensemble)
    gold = GoldScores(data.gold, readout) if sites and data.gold else None
    likelihood = None
    if data.reference is not None:
        sums = LikelihoodSum(reader.recorder.max_positions)
        for record, right in reader.recorder.read(references, sites=sites):
            if gold is not None:
                gold.add(record)
            sums.add(record.token_log_probabilities, right, record.truncated)
        likelihood = sums.means()
    readouts = gold.scores(f"the {data.set_name} set itself (optimistic)") if gold else ReadoutScores(readout)
    if sites and readouts.readout is None:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
    return likelihood, readouts


def _read_targets(
    reader: _Reader,
    pairs: Sequence[ForcedPair],
    probes: Sequence[ForcedPair],
    readouts: ReadoutScores,
    folder: EvaluationDirectory,
    viewer: ViewerRun,
    processes: RunParts | None = None,
) -> None:
    """Reads each source with the target that is shown, and writes the archive, its tables and its heat maps.

    Args:
        reader: the model.
        pairs: the pairs of sources and targets.
        probes: the pairs of the probes. They get heat maps, but no entry in the archive.
        readouts: the readout of the model and its scores.
        folder: the folder of the files.
        viewer: the run on the page; the first sentences are added to it.
        processes: the processes that record; None for this process alone.
    """
    run, data, readout = reader.run, reader.data, readouts.readout
    sites = list(run.config.inspection.attention)
    if readout and readout.site not in sites:
        sites.append(readout.site)
    manifest = archive_manifest(run)
    of_member = ""
    if reader.ensemble:
        manifest["ensemble"] = list(reader.ensemble)
        of_member = f"{viewer.name}: "
    log.info("%srecording the attention of every layer and head", of_member)
    with ArchiveWriter(folder.attention, manifest=manifest, go_on=True) as writer:
        record_resumably(writer, reader.recorder, pairs, sites, processes)
    tables = SetTables(dict(enumerate(data.gold.gold)) if data.gold else None, readout)
    # A user evaluates text to look at it. Of a set, one sentence is drawn if the config has no probes.
    drawn = OWN_SENTENCES_DRAWN if data.is_own_text else int(not run.config.inspection.probes)
    with closing(AttentionArchive(folder.attention)) as archive:
        for record in archive.records(sites):
            row = tables.add(record)
            if record.id < drawn:
                draw_heatmaps([record], folder.heatmaps, "sentence")
            if record.id < PAGE_SENTENCES:
                viewer.add(record, row)
    viewer.types = tables.write(folder)
    write_readout_scores(readouts, folder)
    draw_heatmaps(reader.recorder.record(probes, sites=["cross"]), folder.heatmaps, "probe")
    write_spectra(run.model, folder.spectra)


def _evaluate_members(
    request: EvaluationRequest,
    text: TokenisedSet,
    pairs: Sequence[ForcedPair],
    units: WordUnits,
    table: pd.DataFrame,
    folder: EvaluationDirectory,
    metrics: dict[str, Any],
) -> dict[str, Any]:
    """Records the attention of each model of an ensemble, and writes a page that shows them side by side.

    Each model has a folder with its archive, tables, heat maps and metrics.

    Args:
        request: the request; its run is the ensemble.
        text: the set with its tokens.
        pairs: the pairs of sources and targets.
        units: the unit of words on each side.
        table: the table of the translations.
        folder: the folder of the evaluation.
        metrics: the entries of `metrics.json` so far.

    Returns:
        The entry `members` of `metrics.json`, with a dict for each model.
    """
    ensemble = request.run
    assert isinstance(ensemble, TrainedEnsemble)
    # A search knows the ensemble's log-probabilities; each model's are computed instead.
    pairs = [replace(pair, known=False) for pair in pairs]
    probes = _translate_probes(request)
    members = []
    viewers = []
    for name, run in ensemble.members.items():
        saved = None if request.data.choose_on else saved_readout(run)
        reader = _make_reader(run, request.data, units, saved, ensemble=tuple(ensemble.members))
        readouts = ReadoutScores()
        if reader.compared_sites:
            _, readouts = _read_references(reader, text.pair_references(reader.recorder.max_positions))
        member: dict[str, Any] = {
            "name": name,
            "run": run.directory.root.name,
            "checkpoint": run.weights_name,
            "checkpoint_sha256": run.weights_sha256(),
            "parameters": run.model.count_params(),
        }
        if readouts.metrics:
            member["alignment"] = readouts.metrics
        members.append(member)
        member_metrics = member | {"set": metrics["set"], "evaluation": metrics["name"]}
        member_metrics |= {key: metrics[key] for key in ("mode", "sentences", "search", "truncated")}
        member_metrics["bleu_tokenizer"] = run.config.data.scoring_tokenizer
        viewer = make_viewer_run(run, request.data, name, table, member_metrics)
        viewers.append(viewer)
        member_folder = folder.member(name)
        _read_targets(reader, pairs, probes, readouts, member_folder, viewer)
        write_json(member_folder.metrics, member_metrics)
    _write_page(request, viewers, None, folder)
    return {"members": members}


def _write_page(
    request: EvaluationRequest,
    viewers: Sequence[ViewerRun],
    readout: AlignmentReadout | None,
    folder: EvaluationDirectory,
) -> None:
    """Writes the page of an evaluation.

    It opens at the head of the readout. If there is no readout, or if its head is a mean, the page chooses a head.

    Args:
        request: the request, for the title.
        viewers: the runs on the page, with their sentences.
        readout: the readout of the run; None if there is none, or for an ensemble.
        folder: the folder of the evaluation.
    """
    shown: dict[str, Any] = {"side": readout.side} if readout else {}
    if readout and readout.head != MEAN_HEAD:
        shown |= {"site": readout.site, "layer": readout.layer, "head": readout.head}
    page = viewer_page(f"{request.run.directory.root.name}, {request.data.name}", viewers, opens_at=shown)
    write_output(folder.viewer, page.encode())

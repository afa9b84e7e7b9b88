"""Evaluates a run on a set: translate, read every pair once, measure what was read, write.

Read with their references, the sources give the likelihood and the error rates of alignments; read with the targets
that are shown, they give the archive, its tables, pictures and page. Of an ensemble, each model reads them.
"""

import logging
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from ..alignment.gold import alignment_sites
from ..alignment.head_scores import GoldScores, ReadoutScores
from ..alignment.readout import AlignmentReadout
from ..alignment.readout_selection import choose_readout, kept_readout
from ..decoding.translator import Translation
from ..files.atomic import write_output
from ..files.json import write_json
from ..files.paths import sha256
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import ArchiveWriter, AttentionArchive
from ..inspection.heatmap import draw_heatmaps
from ..inspection.recorder import AttentionRecorder, ForcedPair, pair_translations
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import viewer_page
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import Likelihood, LikelihoodSum
from ..run.ensemble import TrainedEnsemble
from ..run.manifest import archive_manifest
from ..text.tokens.words import WordUnits
from .experiments import EXPERIMENT_RUNNERS, write_spectra
from .page import PAGE_SENTENCES, make_viewer_run
from .request import EvaluationRequest, TokenisedSet
from .resumable import evaluation_folder, fingerprint, record_resumably, translate_resumably
from .tables import SetTables, write_readout_scores, write_translations

OWN_SENTENCES_DRAWN = 3
log = logging.getLogger(__name__)


def evaluate_set(request: EvaluationRequest) -> dict[str, Any]:
    """Translates a set, scores the translations, records the attention and writes all of it into the run.

    Returns:
        The contents of `metrics.json`.
    """
    started = time.monotonic()
    run, data = request.run, request.data
    experiments = [EXPERIMENT_RUNNERS[name] for name in request.experiments]
    for experiment in experiments:
        experiment.check(run.model)  # before anything is written
    text = TokenisedSet.of(data, run.tokenizer)
    banned = run.banned and run.banned.texts
    digest = fingerprint(run, set=data, force_references=request.force_references, banned=banned)
    with evaluation_folder(run.directory.evaluation(data.name), digest) as folder:
        log.info("%s: translating %d sentences", data.name, len(data.source))
        began_search = time.monotonic()
        translations = translate_resumably(run.translator, text, folder.parts, request.spread_over)
        metrics = _describe(request, translations) | {"translation_seconds": _seconds_since(began_search)}
        references = list(text.pair_references(run.config.model.max_positions))
        pairs = references
        if not request.force_references:
            pairs = list(pair_translations(data.source, data.reference, translations, run.config.decoding.kind))
        tokenizer = run.config.data.scoring_tokenizer
        table = write_translations(folder.translations, data.source, data.reference, translations, tokenizer)
        texts = [translation.text for translation in translations]
        if data.reference is not None:
            metrics |= score_translations(texts, data.reference, tokenizer=tokenizer)
        units = run.reader.segmenter.units(data.source, data.reference or texts)
        run.reader.segmenter.log_found(units)

        ensemble = isinstance(run, TrainedEnsemble)
        # An ensemble has no attention of its own.
        recorder = run.recorder(() if ensemble else _sites_to_record(request), units)
        likelihood, readouts = _read_references(request, references, recorder)
        if data.reference is not None and likelihood is not None:
            metrics |= measure_all(MetricInputs(texts, data.reference, likelihood, tokenizer))
            metrics["sentences_too_long_for_loss"] = likelihood.too_long
        metrics["scores_seconds"] = _seconds_since(started)
        if ensemble:
            metrics |= _read_with_members(request, text, pairs, units, table, folder, metrics)
        else:
            metrics |= {"alignment": readouts.metrics} if readouts.metrics else {}
            viewer = make_viewer_run(request, run.directory.root.name, table, metrics)
            _read_targets(request, pairs, _translate_probes(request), recorder, readouts, folder, viewer)
            _write_page(request, [viewer], readouts.readout, folder)
            for experiment in experiments:
                metrics |= experiment.run(request, text, pairs, recorder, folder)
        metrics["seconds"] = _seconds_since(started)
        shutil.rmtree(folder.parts)
        write_json(folder.metrics, metrics)  # last, because it marks the evaluation as complete
    return metrics


def _seconds_since(started: float) -> float:
    return round(time.monotonic() - started, 2)


def _describe(request: EvaluationRequest, translations: Sequence[Translation]) -> dict[str, Any]:
    run, data = request.run, request.data
    facts: dict[str, Any] = {
        "run": run.directory.root.name,
        "set": data.set_name,
        "name": data.name,
        "mode": "forced" if request.force_references else "translated",
        "checkpoint": run.weights.relative_to(run.directory.root).as_posix(),
        "sentences": len(data.source),
        "search": run.config.decoding.kind,
        "decoding": run.config.decoding.model_dump(),
        "truncated": sum(translation.truncated for translation in translations),
    }
    given = {"with_prefix": data.prefixes, "with_required": data.required}
    facts |= {name: sum(map(bool, rows)) for name, rows in given.items() if rows is not None}
    if run.banned is not None:
        facts["banned"] = run.banned.texts
    return facts


def _sites_to_record(request: EvaluationRequest) -> list[str]:
    of_experiments = chain.from_iterable(EXPERIMENT_RUNNERS[name].sites for name in request.experiments)
    return [*request.run.config.inspection.attention, *_sites_to_compare(request), *of_experiments]


def _sites_to_compare(request: EvaluationRequest) -> tuple[str, ...]:
    """Returns the attention sites among which a readout is chosen; none without gold alignments or a kept choice."""
    data = request.data
    is_read = any(known is not None for known in (data.gold, data.choose_on, data.kept))
    return alignment_sites(request.run.config) if is_read else ()


def _translate_probes(request: EvaluationRequest) -> list[ForcedPair]:
    """Translates the config's probes, unless text of one's own is evaluated."""
    run = request.run
    probes = run.config.inspection.probes
    if not probes or request.data.own:
        return []
    sources = [probe.source for probe in probes]
    references = [probe.reference or "" for probe in probes]
    found = run.translator.translate_ids(run.tokenizer.encode(sources))  # the config has them as the model reads them
    return list(pair_translations(sources, references, [one[0] for one in found], run.config.decoding.kind))


def _read_references(
    request: EvaluationRequest, references: Iterable[ForcedPair], recorder: AttentionRecorder
) -> tuple[Likelihood | None, ReadoutScores]:
    """Reads every source with its reference, once: returns the likelihood of the references, None without any; and the
    readout, chosen on the set that the request names, with its scores on this one if it has gold alignments. An
    ensemble has no readout."""
    data = request.data
    sites = _sites_to_compare(request) if recorder.sites else ()
    readout = data.kept
    if sites and data.choose_on:
        readout = choose_readout(request.run, data.choose_on, recorder.sites, keeps=not request.ensemble)
    gold = GoldScores(data.gold, readout) if sites and data.gold else None
    likelihood = None
    if data.reference is not None:
        sums = LikelihoodSum(recorder.max_positions)
        for record, right in recorder.read(references, sites=sites):
            if gold is not None:
                gold.add(record)
            sums.add(record.token_log_probabilities, right, record.truncated)
        likelihood = sums.means()
    readouts = gold.scores(f"the {data.set_name} set itself (optimistic)") if gold else ReadoutScores(readout)
    if sites and readouts.readout is None:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
    return likelihood, readouts


def _read_targets(
    request: EvaluationRequest,
    pairs: Sequence[ForcedPair],
    probes: Sequence[ForcedPair],
    recorder: AttentionRecorder,
    readouts: ReadoutScores,
    folder: EvaluationDirectory,
    viewer: ViewerRun,
) -> None:
    """Reads every source with the target that is shown, once, archives the attention, and writes what is measured and
    drawn of it; of the probes it only draws. The first sentences go into the viewer. Of an ensemble, the request's run
    is one of its models."""
    run, data, readout = request.run, request.data, readouts.readout
    sites = list(run.config.inspection.attention)
    if readout and readout.site not in sites:
        sites.append(readout.site)
    of_member = f"{viewer.name}: " if request.ensemble else ""
    log.info("%srecording the attention of every layer and head", of_member)
    manifest = archive_manifest(run)
    if request.ensemble:
        manifest["ensemble"] = list(request.ensemble)
    with ArchiveWriter(folder.attention, manifest=manifest, go_on=True) as writer:
        record_resumably(writer, recorder, pairs, sites, request.spread_over)
    tables = SetTables(dict(enumerate(data.gold.gold)) if data.gold else None, readout)
    # Text of one's own is evaluated to be looked at; of a set, one sentence shows where there are no probes.
    drawn = OWN_SENTENCES_DRAWN if data.own else int(not run.config.inspection.probes)
    with closing(AttentionArchive(folder.attention)) as archive:
        for record in archive.records(sites):
            row = tables.add(record)
            if record.id < drawn:
                draw_heatmaps([record], folder.heatmaps, "sentence")
            if record.id < PAGE_SENTENCES:
                viewer.add(record, row)
    viewer.types = tables.write(folder)
    write_readout_scores(readouts, folder)
    draw_heatmaps(recorder.record(probes, sites=["cross"]), folder.heatmaps, "probe")
    write_spectra(run.model, folder.spectra)


def _read_with_members(
    request: EvaluationRequest,
    text: TokenisedSet,
    pairs: Sequence[ForcedPair],
    units: WordUnits,
    table: pd.DataFrame,
    folder: EvaluationDirectory,
    metrics: dict[str, Any],
) -> dict[str, Any]:
    """Lets each model of an ensemble read the set and the ensemble's translations.

    Each model has a folder, in which attention and log-probabilities are its own. The page shows them side by side.
    """
    ensemble = request.run
    assert isinstance(ensemble, TrainedEnsemble)
    # Each model's own log-probabilities are computed, in place of those that the search knows.
    pairs = [replace(pair, known=False) for pair in pairs]
    probes = _translate_probes(request)
    described, viewers = [], []
    for name, run in ensemble.members.items():
        data = replace(request.data, kept=kept_readout(run))
        own = replace(request, run=run, data=data, spread_over=None, ensemble=tuple(ensemble.members))
        place = folder.member(name)
        recorder = run.recorder(_sites_to_record(own), units)
        readouts = ReadoutScores()
        if _sites_to_compare(own):
            _, readouts = _read_references(own, text.pair_references(recorder.max_positions), recorder)
        described.append(
            {
                "name": name,
                "run": run.directory.root.name,
                "checkpoint": run.weights.relative_to(run.directory.root).as_posix(),
                "checkpoint_sha256": sha256(run.weights),
                "parameters": run.model.count_params(),
                **({"alignment": readouts.metrics} if readouts.metrics else {}),
            }
        )
        of_member = described[-1] | {"set": metrics["set"], "evaluation": metrics["name"]}
        of_member |= {key: metrics[key] for key in ("mode", "sentences", "search", "truncated")}
        of_member["bleu_tokenizer"] = run.config.data.scoring_tokenizer
        viewers.append(make_viewer_run(own, name, table, of_member))
        _read_targets(own, pairs, probes, recorder, readouts, place, viewers[-1])
        write_json(place.metrics, of_member)
    _write_page(request, viewers, None, folder)
    return {"members": described}


def _write_page(
    request: EvaluationRequest,
    viewers: Sequence[ViewerRun],
    readout: AlignmentReadout | None,
    folder: EvaluationDirectory,
) -> None:
    """Writes the page. It opens at the head from which alignments are read; where that is a mean of heads, or there is
    none, at the head that tells most."""
    shown: dict[str, Any] = {"side": readout.side} if readout else {}
    if readout and readout.head != "mean":
        shown |= {"site": readout.site, "layer": readout.layer, "head": readout.head}
    page = viewer_page(f"{request.run.directory.root.name}, {request.data.name}", viewers, opens_at=shown)
    write_output(folder.viewer, page.encode())

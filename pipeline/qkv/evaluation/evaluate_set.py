"""Evaluates a run on a set: translate, score, record, choose the alignment readout, write.

Attention is recorded into an archive, measured, and shown; of an ensemble, that of each model.
"""

import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..alignment.gold import GoldSet
from ..alignment.head_scores import best_row, choose_readout, head_counts, head_table, table_of_counts
from ..alignment.readout import ProbableReadout, aligned_sites
from ..alignment.readout_choice import alignment_sites, with_probabilities
from ..config.names.inspection import SITES
from ..config.names.model import MECHANISMS
from ..decoding.translator import Translation
from ..files.json import read_json_object, write_json
from ..files.paths import sha256
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import ArchiveWriter, AttentionArchive
from ..inspection.experiments.perturbation import check_perturbable
from ..inspection.recorder import AttentionRecorder, ForcedPair
from ..inspection.viewer.page import write_viewer
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import LikelihoodMeter
from ..run.ensemble import TrainedEnsemble
from ..run.trained_run import TrainedRun
from ..runtime.devices import parallel_batches
from ..text.tokens.words import WordUnits
from .evaluation_folder import evaluation_folder, fingerprint, record_resumably, translate_resumably
from .experiments import write_faithfulness
from .outputs import Outputs, fill_viewer, translate_probes, write_measured, write_outputs, write_translations_of
from .readout_scores import ReadoutScores, scores_of_readout, scores_with_probabilities
from .request import EvaluationRequest, TokenisedSet

log = logging.getLogger(__name__)


def evaluate_set(request: EvaluationRequest) -> dict[str, Any]:
    """Translates a set, scores the translations, records the attention and writes all of it into the run.

    Returns:
        The contents of `metrics.json`.
    """
    run, data, clock = request.run, request.data, _Clock()
    ensemble = isinstance(run, TrainedEnsemble)
    if request.perturbed_sentences:
        check_perturbable(run.model)  # before anything is written
    banned = run.banned and run.banned.texts
    digest = fingerprint(run, set=data, force_references=request.force_references, banned=banned)
    with evaluation_folder(run.directory.evaluation(data.name), digest) as folder:
        log.info("%s: translating %d sentences", data.name, len(data.source))
        translating = _Clock()
        text = TokenisedSet.of(data, run.tokenizer)
        translations = translate_resumably(run.translator, text, folder.parts, request.spread_over)
        units = run.cutter.units(data.source, data.reference or [translation.text for translation in translations])
        run.cutter.log_found(units)
        # An ensemble has no attention of its own.
        recorder = run.recorder(() if ensemble else sites_to_record(request), units)
        metrics = _describe(request, translations) | {"translation_seconds": translating.seconds}

        if data.reference is not None:
            metrics |= score(request, text, translations, recorder)
        metrics["scores_seconds"] = clock.seconds
        if ensemble:
            metrics |= inspect_members(request, text, translations, units, folder)
        else:
            metrics |= inspect_run(request, text, translations, recorder, folder, metrics)
        metrics["seconds"] = clock.seconds
        shutil.rmtree(folder.parts)
        write_json(folder.metrics, metrics)  # last, because it marks the evaluation as complete
    return metrics


def score(
    request: EvaluationRequest, text: TokenisedSet, translations: Sequence[Translation], recorder: AttentionRecorder
) -> dict[str, Any]:
    """Scores translations against the references, and the references' likelihood under the model."""
    config = request.run.config
    assert text.data.reference is not None and text.reference is not None
    texts = [translation.text for translation in translations]
    meter = LikelihoodMeter(
        recorder.read,
        text.source,
        text.reference,
        max_positions=config.model.max_positions,
        workers=parallel_batches(),
    )
    likelihood = meter.measure()
    tokenizer = config.data.scoring_tokenizer
    return {
        **score_translations(texts, text.data.reference, tokenizer=tokenizer),
        **measure_all(MetricInputs(texts, text.data.reference, likelihood, tokenizer)),
        "sentences_too_long_for_loss": meter.too_long,
    }


def _describe(request: EvaluationRequest, translations: Sequence[Translation]) -> dict[str, Any]:
    run = request.run
    return {
        "run": run.directory.root.name,
        "set": request.data.set_name,
        "name": request.data.name,
        "mode": "forced" if request.force_references else "translated",
        "checkpoint": run.weights.relative_to(run.directory.root).as_posix(),
        "sentences": len(request.data.source),
        "search": run.config.decoding.kind,
        "decoding": run.config.decoding.model_dump(),
        "truncated": sum(translation.truncated for translation in translations),
        **_describe_given(request),
    }


def _describe_given(request: EvaluationRequest) -> dict[str, Any]:
    data, banned = request.data, request.run.banned
    return {
        **({} if data.prefixes is None else {"with_prefix": sum(map(bool, data.prefixes))}),
        **({} if data.required is None else {"with_required": sum(map(bool, data.required))}),
        **({} if banned is None else {"banned": banned.texts}),
    }


class _Clock:
    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return round(time.monotonic() - self._started, 2)


def inspect_run(
    request: EvaluationRequest,
    text: TokenisedSet,
    translations: Sequence[Translation],
    recorder: AttentionRecorder,
    folder: EvaluationDirectory,
    known: dict[str, Any],
) -> dict[str, Any]:
    """Records and measures the attention of a run, writes all files but `metrics.json`, and returns what that says of
    them besides what is `known`."""
    readouts = score_readouts(request, recorder, text)
    metrics: dict[str, Any] = {"alignment": readouts.metrics} if readouts.metrics else {}
    pairs = pair_targets(request, text, translations)
    sites = sites_to_archive(request, readouts)
    log.info("recording the attention of every layer and head")
    archive = record(request, recorder, pairs, sites, folder.attention, archive_manifest(request.run))
    probes = translate_probes(request)
    outputs = Outputs(request, folder, archive, sites, translations, readouts, recorder, probes, known | metrics)
    metrics |= write_outputs(outputs, pairs)
    if request.faithful_sentences:
        metrics |= write_faithfulness(request, text, pairs, recorder, folder)
    archive.close()
    return metrics


def inspect_members(
    request: EvaluationRequest,
    text: TokenisedSet,
    translations: Sequence[Translation],
    units: WordUnits,
    folder: EvaluationDirectory,
) -> dict[str, Any]:
    """Records and measures the attention of each model of an ensemble over the ensemble's translations, as
    `inspect_run`.

    Each model has a folder, in which attention and log-probabilities are its own. The page shows them side by side.
    """
    ensemble = request.run
    assert isinstance(ensemble, TrainedEnsemble)
    # Each model's own log-probabilities are computed, in place of those that the search knows.
    pairs = [replace(pair, log_probabilities=None) for pair in pair_targets(request, text, translations)]
    probes = translate_probes(request)
    table = write_translations_of(request, translations, folder)
    described, viewers = [], []
    for name, member in ensemble.members.items():
        own, place = replace(request, run=member, spread_over=None), folder.member(name)
        recorder = member.recorder(sites_to_record(own), units)
        readouts = score_readouts(own, recorder, text)
        sites = sites_to_archive(own, readouts)
        log.info("%s: recording the attention of every layer and head", name)
        manifest = archive_manifest(member) | {"ensemble": list(ensemble.members)}
        archive = record(own, recorder, pairs, sites, place.attention, manifest)
        described.append(_describe_member(name, own, readouts))
        metrics = _metrics_of_member(request, described[-1], translations)
        outputs = Outputs(own, place, archive, sites, translations, readouts, recorder, probes, metrics)
        viewers.append(fill_viewer(outputs, name, write_measured(outputs), table))
        archive.close()
        write_json(place.metrics, metrics)
    write_viewer(folder.viewer, f"{ensemble.directory.root.name}, {request.data.name}", viewers)
    return {"members": described}


def sites_to_record(request: EvaluationRequest) -> list[str]:
    """Returns the sites that the config lists, those among which a readout is chosen, and those whose faithfulness is
    measured."""
    scored = aligned_sites() if request.faithful_sentences else ()
    return [*request.run.config.inspection.attention, *sites_to_read(request), *scored]


def pair_targets(
    request: EvaluationRequest, text: TokenisedSet, translations: Sequence[Translation]
) -> list[ForcedPair]:
    """Returns the pairs whose attention is recorded: sources with their references, or with their translations."""
    if request.force_references:
        return list(text.pair_references(request.run.config.model.max_positions))
    return list(text.pair_translations(translations, request.run.config.decoding.kind))


def sites_to_archive(request: EvaluationRequest, readouts: ReadoutScores) -> list[str]:
    """Returns the sites that the config lists, and the site from which alignments are read."""
    sites = list(request.run.config.inspection.attention)
    if readouts.readout and readouts.readout.site not in sites:
        sites.append(readouts.readout.site)
    return sites


def record(
    request: EvaluationRequest,
    recorder: AttentionRecorder,
    pairs: Sequence[ForcedPair],
    sites: Sequence[str],
    path: Path,
    manifest: dict[str, Any],
) -> AttentionArchive:
    """Records the attention of the pairs into an archive."""
    with ArchiveWriter(path, manifest=manifest, go_on=True) as writer:
        record_resumably(writer, recorder, pairs, sites, request.spread_over)
    return AttentionArchive(path)


def archive_manifest(run: TrainedRun) -> dict[str, Any]:
    """Returns the facts about the run that the archive's manifest holds."""
    facts: dict[str, Any] = {"run": run.directory.root.name}
    if signed := _signed_sites(run):
        facts["signed"] = signed
    try:
        manifest = read_json_object(run.directory.manifest)
    except (OSError, ValueError):  # a run that still trains has none
        return facts
    names = ("versions", "git_commit", "model_sha256", "tokenizer_sha256")
    return facts | {name: manifest.get(name) for name in names}


def _signed_sites(run: TrainedRun) -> list[str]:
    """Returns the sites of the archive whose weights are no shares of a row, but mixed with weights of any sign."""
    attention = getattr(run.config.model, "attention", None)
    mechanisms = {name: getattr(attention, site.weighed_at, None) for name, site in SITES.items() if site.weighed_at}
    return [name for name, at in mechanisms.items() if at and not MECHANISMS[at.mechanism].gives_shares]


def _describe_member(name: str, request: EvaluationRequest, readouts: ReadoutScores) -> dict[str, Any]:
    run = request.run
    return {
        "name": name,
        "run": run.directory.root.name,
        "checkpoint": run.weights.relative_to(run.directory.root).as_posix(),
        "checkpoint_sha256": sha256(run.weights),
        "parameters": run.model.count_params(),
        **({"alignment": readouts.metrics} if readouts.metrics else {}),
    }


def _metrics_of_member(
    request: EvaluationRequest, described: dict[str, Any], translations: Sequence[Translation]
) -> dict[str, Any]:
    """Returns the `metrics.json` of a member: what describes it, and what it has been shown."""
    config = request.run.config
    return {
        **described,
        "set": request.data.set_name,
        "evaluation": request.data.name,
        "mode": "forced" if request.force_references else "translated",
        "sentences": len(request.data.source),
        "search": config.decoding.kind,
        "truncated": sum(translation.truncated for translation in translations),
        "bleu_tokenizer": config.data.scoring_tokenizer,
    }


def sites_to_read(request: EvaluationRequest) -> tuple[str, ...]:
    """Returns the attention sites among which a readout is chosen; none without gold alignments."""
    has_gold = request.data.gold is not None or request.data.choose_on is not None
    return alignment_sites(request.run.config) if has_gold else ()


def score_readouts(request: EvaluationRequest, recorder: AttentionRecorder, text: TokenisedSet) -> ReadoutScores:
    """Chooses the readout, and scores it on the set if that has gold alignments."""
    data, sites = request.data, sites_to_read(request)
    if not sites:
        return ReadoutScores()
    table = counts = None
    if data.gold is not None:
        pairs = text.pair_references(request.run.config.model.max_positions)
        counts = head_counts(recorder.record(pairs, sites=sites), data.gold)
        table = table_of_counts(counts)
    choice_table = table
    if data.choose_on is not None:
        chooser = request.run.recorder(recorder.sites, data.choose_on.units)  # usually the same one
        choice_table = _score_choice_set(chooser, data.choose_on, sites)
    if choice_table is None or choice_table.empty:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
        return ReadoutScores()
    name = data.choose_on.name if data.choose_on is not None else f"the {data.set_name} set itself (optimistic)"
    readout = choose_readout(choice_table, name)
    if data.choose_on is not None:
        aer = float(best_row(choice_table)["aer"])
        readout = with_probabilities(readout, request.run, chooser, data.choose_on, aer)
    if data.gold is None or table is None or counts is None:
        return ReadoutScores(readout)
    if isinstance(readout, ProbableReadout):
        pairs = text.pair_references(request.run.config.model.max_positions)
        return scores_with_probabilities(readout, counts, table, data.gold, recorder.record(pairs, sites=["cross"]))
    return scores_of_readout(readout, counts, table, data.gold)


def _score_choice_set(recorder: AttentionRecorder, gold_set: GoldSet, sites: tuple[str, ...]) -> pd.DataFrame:
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target, sites=sites)
    return head_table(records, gold_set)

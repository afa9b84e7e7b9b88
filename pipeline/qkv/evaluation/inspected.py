"""The attention of an evaluation: recorded into an archive, measured, and shown; of an ensemble, that of each model."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..alignment.readout import aligned_sites
from ..config.names.inspection import SITES
from ..config.names.model import MECHANISMS
from ..decoding.translator import Translation
from ..files.json import read_json_object, write_json
from ..files.paths import sha256
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import ArchiveWriter, AttentionArchive
from ..inspection.recorder import AttentionRecorder, ForcedPair
from ..inspection.viewer.page import write_viewer
from ..run.ensemble import TrainedEnsemble
from ..run.trained_run import TrainedRun
from ..text.tokens.words import WordUnits
from .alignment import score_readouts, sites_to_read
from .archive_scores import ReadoutScores
from .faithfulness_files import write_faithfulness
from .outputs import Outputs, fill_viewer, translate_probes, write_measured, write_outputs, write_translations_of
from .request import EvaluationRequest
from .resumable import record_resumably
from .tokenised import TokenisedSet

log = logging.getLogger(__name__)


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

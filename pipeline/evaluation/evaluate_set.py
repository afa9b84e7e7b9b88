"""Evaluates a run on a set: translate, score, record, write."""

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.names import MECHANISMS, SITES
from ..decoding.translator import Translation
from ..files import write_json
from ..inspection.archive import AttentionArchive
from ..inspection.archive_writer import ArchiveWriter
from ..inspection.forced_pairs import ForcedPair
from ..inspection.perturbation import check_perturbable
from ..inspection.recorder import AttentionRecorder
from ..json_file import read_json_object
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import LikelihoodMeter
from ..runtime.devices import parallel_batches
from ..trained_run import TrainedRun
from .alignment import score_readouts, sites_to_read
from .archive_scores import ReadoutScores
from .outputs import Outputs, write_outputs
from .request import EvaluationRequest
from .resumable import evaluation_folder, fingerprint, record_resumably, translate_resumably
from .tokenised import TokenisedSet

log = logging.getLogger(__name__)


def evaluate_set(request: EvaluationRequest) -> dict[str, Any]:
    """Translates a set, scores the translations, records the attention and writes all of it into the run.

    Returns:
        The contents of `metrics.json`.
    """
    run, data, clock = request.run, request.data, _Clock()
    config = run.config
    if request.perturbed_sentences:
        check_perturbable(run.model)  # before anything is written
    banned = run.banned and run.banned.texts
    digest = fingerprint(run, set=data, force_references=request.force_references, banned=banned)
    with evaluation_folder(run.directory.evaluation(data.name), digest) as folder:
        log.info("%s: translating %d sentences", data.name, len(data.source))
        translating = _Clock()
        text = TokenisedSet.of(data, run.tokenizer)
        translations = translate_resumably(run.translator, text, folder.parts)
        units = run.cutter.units(data.source, data.reference or [translation.text for translation in translations])
        run.cutter.log_found(units)
        recorder = run.recorder([*config.inspection.attention, *sites_to_read(request)], units)
        metrics = _describe(request, translations) | {"translation_seconds": translating.seconds}

        if data.reference is not None:
            metrics |= score(request, text, translations, recorder)
        metrics["scores_seconds"] = clock.seconds
        readouts = score_readouts(request, recorder, text)
        if readouts.metrics:
            metrics["alignment"] = readouts.metrics

        pairs = pair_targets(request, text, translations)
        sites = sites_to_archive(request, readouts)
        archive = record(request, recorder, pairs, sites, folder.attention)

        outputs = Outputs(request, folder, archive, sites, translations, readouts, recorder)
        metrics |= write_outputs(outputs, pairs)
        archive.close()
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
) -> AttentionArchive:
    """Records the attention of the pairs into an archive."""
    log.info("recording the attention of every layer and head")
    shard = request.run.config.inspection.sentences_per_shard
    manifest = archive_manifest(request.run)
    with ArchiveWriter(path, manifest=manifest, sentences_per_shard=shard, go_on=True) as writer:
        record_resumably(writer, recorder, pairs, sites)
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

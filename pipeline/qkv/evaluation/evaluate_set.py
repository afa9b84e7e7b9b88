"""Evaluates a run on a set: translate, score, record, write."""

import logging
import shutil
import time
from collections.abc import Sequence
from typing import Any

from ..decoding.translator import Translation
from ..files.json import write_json
from ..inspection.experiments.perturbation import check_perturbable
from ..inspection.recorder import AttentionRecorder
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import LikelihoodMeter
from ..run.ensemble import TrainedEnsemble
from ..runtime.devices import parallel_batches
from .inspected import inspect_members, inspect_run, sites_to_record
from .request import EvaluationRequest
from .resumable import evaluation_folder, fingerprint, translate_resumably
from .tokenised import TokenisedSet

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

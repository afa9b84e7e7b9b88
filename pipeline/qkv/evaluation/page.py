"""A run in the viewer's page of its evaluation, and the page's header: facts of the run and the evaluation."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..config.model import ArchitectureSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from ..config.run import load_started_run
from ..errors import InputError
from ..files.json import read_json_object
from ..files.run_directory import EvaluationDirectory, RunDirectory
from ..inspection.viewer.data import ViewerRun

if TYPE_CHECKING:
    import pandas as pd

    from .request import EvaluationRequest

PAGE_SENTENCES = 1000  # of a set; `qkv view --sentences` shows more
SCORES = {"bleu": "BLEU", "chrf": "chrF"}
"""The scores of `metrics.json` that are shown, with their names."""


def make_viewer_run(
    request: "EvaluationRequest", name: str, table: "pd.DataFrame", metrics: Mapping[str, Any]
) -> ViewerRun:
    """Makes the run of an evaluation as the page shows it, without sentences.

    Args:
        request: what is evaluated.
        name: what the page calls the run.
        table: of the translations.
        metrics: what `metrics.json` holds so far.
    """
    run, data = request.run, request.data
    return ViewerRun(
        name,
        data.gold.gold if data.gold else (),
        table["sentence_bleu"].tolist() if "sentence_bleu" in table else (),
        run.detokenize if run.config.data.tokenized else None,
        facts=page_facts(run.config, run.model.count_params(), metrics),
        sentences_in_set=len(data.source),
    )


def page_facts(config: RunConfig, parameters: int | None, metrics: Mapping[str, Any]) -> list[str]:
    """Returns short texts: the languages, the model and its size, how it translated, the scores.

    Args:
        config: the run's settings.
        parameters: the number of the model's parameters; None where it is unknown.
        metrics: the contents of `metrics.json`; keys that are missing are left out.
    """
    facts = [f"{config.data.source_language} → {config.data.target_language}"]
    size = "" if parameters is None else f", {_millions(parameters)} parameters"
    facts.append(describe_model(config.model) + size)
    if metrics.get("mode") == "forced":
        facts.append("references as targets")
    elif search := metrics.get("search"):
        beam = _section(metrics, "decoding").get("beam_size")
        facts.append(f"beam of {beam}" if search == "beam" and beam else f"{search} search")
    facts += [f"{name} {_number(metrics[key]):.1f}" for key, name in SCORES.items() if _number(metrics.get(key)) >= 0]
    error_rate = _number(_section(metrics, "alignment").get("aer"))
    return [*facts, f"alignment error rate {error_rate:.1f} %"] if error_rate >= 0 else facts


def describe_model(model: ArchitectureSettings) -> str:
    """Returns the architecture with its numbers of layers and heads, such as `Transformer, 4 + 4 layers × 4 heads`."""
    if isinstance(model, TransformerSettings):
        return f"Transformer, {model.encoder_layers} + {model.decoder_layers} layers × {model.num_heads} heads"
    if isinstance(model, DecoderOnlySettings):
        return f"decoder alone, {model.layers} layers × {model.num_heads} heads"
    if isinstance(model, RecurrentSettings):
        return f"recurrent, {model.cross_attention} attention"
    return model.architecture


def read_page_facts(run: RunDirectory | None, evaluation: EvaluationDirectory | None) -> list[str]:
    """Reads the facts of a finished run from its folder. Without a run there are none, nor for one whose settings
    cannot be read: the page shows attention without them too."""
    if run is None:
        return []
    try:
        config = load_started_run(run.config)
    except InputError:
        return []
    parameters = _read(run.manifest).get("parameters")
    metrics = {} if evaluation is None else _read(evaluation.metrics)
    return page_facts(config, parameters if isinstance(parameters, int) else None, metrics)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json_object(path)
    except (OSError, ValueError):
        return {}


def _section(metrics: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = metrics.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else -1.0


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 50_000 else f"{parameters:,}"

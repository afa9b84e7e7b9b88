"""A run in the viewer's page of its evaluation, and the page's header: facts of the run and the evaluation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..config.model import ArchitectureSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from ..inspection.viewer.data import ViewerRun

if TYPE_CHECKING:
    import pandas as pd

    from .request import EvaluationRequest

PAGE_SENTENCES = 1000  # of a set; `qkv view --sentences` shows more


def make_viewer_run(
    request: "EvaluationRequest", name: str, table: "pd.DataFrame", metrics: Mapping[str, Any]
) -> ViewerRun:
    """Makes the run of an evaluation as the page shows it under a name, without sentences, from the table of the
    translations and what `metrics.json` holds so far."""
    run, data = request.run, request.data
    return ViewerRun(
        name,
        data.gold.gold if data.gold else (),
        table["sentence_bleu"].tolist() if "sentence_bleu" in table else (),
        run.reader.detokenize if run.config.data.tokenized else None,
        facts=page_facts(run.config, run.model.count_params(), metrics),
        sentences_in_set=len(data.source),
    )


def page_facts(config: RunConfig, parameters: int | None, metrics: Mapping[str, Any]) -> list[str]:
    """Returns short texts: the languages, the model and the number of its parameters, if that is known, how it
    translated and the scores, as far as `metrics.json` has them."""
    facts = [f"{config.data.source_language} → {config.data.target_language}", describe_model(config.model)]
    if parameters is not None:
        count = f"{parameters / 1e6:.1f} M" if parameters >= 50_000 else f"{parameters:,}"
        facts[-1] += f", {count} parameters"
    if metrics.get("mode") == "forced":
        facts.append("references as targets")
    elif search := metrics.get("search"):
        beam = metrics.get("decoding", {}).get("beam_size")
        facts.append(f"beam of {beam}" if search == "beam" and beam else f"{search} search")
    scores = {"BLEU": metrics.get("bleu"), "chrF": metrics.get("chrf")}
    facts += [f"{name} {score:.1f}" for name, score in scores.items() if score is not None]
    error_rate = metrics.get("alignment", {}).get("aer")
    return facts if error_rate is None else [*facts, f"alignment error rate {error_rate:.1f} %"]


def describe_model(model: ArchitectureSettings) -> str:
    """Returns the architecture with its numbers of layers and heads, such as `Transformer, 4 + 4 layers × 4 heads`."""
    if isinstance(model, TransformerSettings):
        return f"Transformer, {model.encoder_layers} + {model.decoder_layers} layers × {model.num_heads} heads"
    if isinstance(model, DecoderOnlySettings):
        return f"decoder alone, {model.layers} layers × {model.num_heads} heads"
    if isinstance(model, RecurrentSettings):
        return f"recurrent, {model.cross_attention} attention"
    return model.architecture

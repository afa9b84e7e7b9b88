"""The run of an evaluation on the viewer's page, and the page's header: facts about the run and the evaluation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..config.model import ArchitectureSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from ..inspection.viewer.data import ViewerRun

if TYPE_CHECKING:
    import pandas as pd

    from ..run.trained_run import TrainedRun
    from .request import EvaluationSet

PAGE_SENTENCES = 1000
"""The number of sentences on the page of an evaluation. `qkv view --sentences` shows more."""


def make_viewer_run(
    run: "TrainedRun", data: "EvaluationSet", name: str, table: "pd.DataFrame", metrics: Mapping[str, Any]
) -> ViewerRun:
    """Returns the run of an evaluation for the page, with no sentences yet.

    Args:
        run: the run.
        data: the set that is evaluated.
        name: the name of the run on the page.
        table: the table of the translations, see `evaluation.tables.write_translations`.
        metrics: the entries of `metrics.json` so far.
    """
    return ViewerRun(
        name,
        data.gold.gold if data.gold else (),
        table["sentence_bleu"].tolist() if "sentence_bleu" in table else (),
        run.reader.detokenize if run.config.data.tokenized else None,
        facts=page_facts(run.config, run.model.count_params(), metrics),
        sentences_in_set=len(data.source),
    )


def page_facts(config: RunConfig, parameters: int | None, metrics: Mapping[str, Any]) -> list[str]:
    """Returns short texts for the page's header: languages, model, search and scores. Unknown facts are left out.

    Args:
        config: the config of the run.
        parameters: the number of the model's parameters; None if it is unknown.
        metrics: the entries of `metrics.json` that are known.
    """
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
    """Returns a model's architecture and size, such as `Transformer, 4 + 4 layers × 4 heads`."""
    if isinstance(model, TransformerSettings):
        name = "Transformer" if model.architecture == "transformer" else model.architecture
        return f"{name}, {model.encoder_layers} + {model.decoder_layers} layers × {model.num_heads} heads"
    if isinstance(model, DecoderOnlySettings):
        return f"decoder alone, {model.layers} layers × {model.num_heads} heads"
    if isinstance(model, RecurrentSettings):
        return f"recurrent, {model.cross_attention} attention"
    return model.architecture

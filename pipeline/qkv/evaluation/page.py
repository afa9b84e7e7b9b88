"""The run of an evaluation on the viewer's page, and the page's header: facts about the run and the evaluation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..config.choices.inspection import RECORD_MODES
from ..config.model import ArchitectureSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from ..inspection.viewer.data import ViewerRun, Words

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
        confidences=table["confidence"].tolist() if "confidence" in table else (),
    )


def page_facts(config: RunConfig, parameters: int | None, metrics: Mapping[str, Any]) -> list[Words]:
    """Returns facts for the page's header: languages, model, search and scores. Unknown facts are left out.

    Args:
        config: the config of the run.
        parameters: the number of the model's parameters; None if it is unknown.
        metrics: the entries of `metrics.json` that are known.
    """
    facts: list[Words] = [
        f"{config.data.source_language} → {config.data.target_language}",
        describe_model(config.model),
    ]
    if parameters is not None and parameters >= 50_000:
        facts.append(("viewer.fact.millions", {"millions": parameters / 1e6}))
    elif parameters is not None:
        facts.append(("viewer.fact.parameters", {"count": parameters}))
    search = "forced" if metrics.get("mode") == "forced" else metrics.get("search")
    beam = metrics.get("decoding", {}).get("beam_size")
    if search == "beam" and beam:
        facts.append(("viewer.fact.beam_of", {"size": beam}))
    elif search in RECORD_MODES:
        facts.append((f"viewer.fact.search.{search}", {}))
    scores = {"bleu": metrics.get("bleu"), "chrf": metrics.get("chrf"), "aer": metrics.get("alignment", {}).get("aer")}
    return facts + [(f"viewer.fact.{name}", {"score": score}) for name, score in scores.items() if score is not None]


def describe_model(model: ArchitectureSettings) -> Words:
    """Returns a model's architecture and size for the page, such as `Transformer, 4 + 4 layers × 4 heads`."""
    if isinstance(model, TransformerSettings):
        name = "Transformer" if model.architecture == "transformer" else model.architecture
        layers = {"encoder_layers": model.encoder_layers, "decoder_layers": model.decoder_layers}
        return "viewer.fact.transformer", {"name": name, **layers, "heads": model.num_heads}
    if isinstance(model, DecoderOnlySettings):
        return "viewer.fact.decoder_only", {"layers": model.layers, "heads": model.num_heads}
    if isinstance(model, RecurrentSettings):
        return "viewer.fact.recurrent", {"attention": model.cross_attention}
    return model.architecture

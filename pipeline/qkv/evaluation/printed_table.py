"""The table of metrics on the terminal, after `evaluate.py` and `qkv measure`."""

import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..alignment.readout import describe_readout
from ..metrics.bleu import LEAST_BLEU_FOR_TER, explain_low_bleu

log = logging.getLogger(__name__)


def print_table(metrics: dict[str, Any], folder: Path) -> None:
    """Logs the metrics of an evaluation, advice if BLEU is low, the folder of the results, and the next commands.

    Args:
        metrics: the content of `metrics.json`.
        folder: the folder of the evaluation, `RUN/evaluations/NAME`.
    """
    print_rows(metrics)
    if "bleu" in metrics:
        words = metrics["reference_length"] / metrics["sentences"]
        advice = explain_low_bleu(metrics["bleu"], metrics["token_accuracy"], words, metrics["bleu_tokenizer"])
        if advice:
            log.warning(advice)
    log.info("results: %s", folder)
    runs = shlex.quote(str(folder.parents[2]))
    log.info("next:\n  open %s in a browser\n  tensorboard --logdir %s", folder / "viewer.html", runs)


def print_rows(metrics: dict[str, Any]) -> None:
    """Logs the metrics of an evaluation in two columns. Metrics that it does not have are left out.

    Args:
        metrics: the content of `metrics.json`.
    """
    rows = list(_rows(metrics))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        log.info("%-*s  %s", width, name, value)


def _rows(metrics: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each row."""
    yield "sentences", f"{metrics['sentences']}"
    if "bleu" in metrics:
        yield from _score_rows(metrics)
    if "loss" in metrics:
        yield "loss", f"{metrics['loss']:.4f} nats a token, perplexity {metrics['perplexity']:.3f}"
    if "token_accuracy" in metrics:
        yield "token accuracy", f"{metrics['token_accuracy']:.4f}"
    if metrics["truncated"]:
        yield "truncated", f"{metrics['truncated']} sentences whose source or translation was cut short"
    if "alignment" in metrics:
        yield from _alignment_rows(metrics["alignment"])
    for member in metrics.get("members", []):
        if "alignment" in member:
            yield from _alignment_rows(member["alignment"], f"AER of {member['name']}")
    if "seconds" in metrics:
        yield "seconds", f"{metrics['seconds']:.1f}"


def _score_rows(metrics: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the rows of BLEU, chrF, TER and the length of the translations."""
    for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("chrF++", "chrf++")):
        yield name, f"{metrics[key]:.2f}   ({metrics['signatures'][key]})"
    if metrics["ter"] is None:
        yield "TER", f"not computed, since BLEU is below {LEAST_BLEU_FOR_TER:g}"
    else:
        yield "TER", f"{metrics['ter']:.2f} %, lower is better   ({metrics['signatures']['ter']})"
    lengths = f"{metrics['translation_length']} words for the references' {metrics['reference_length']}"
    yield "length", f"{lengths} (brevity penalty {metrics['brevity_penalty']:.3f})"


def _alignment_rows(alignment: dict[str, Any], label: str = "AER") -> Iterator[tuple[str, str]]:
    """Yields the rows of the alignment error rate, with this label, and of the baselines.

    Args:
        alignment: the entry `alignment` of `metrics.json`, see `alignment.head_scores.alignment_metrics`.
        label: the label of the first row.
    """
    readout = describe_readout(alignment["layer"], alignment["head"], alignment["side"], alignment["linked"])
    rates = f"precision {alignment['precision']:.2f} %, recall {alignment['recall']:.2f} %"
    yield label, f"{alignment['aer']:.2f} %   ({rates}; {readout}, chosen on {alignment['chosen_on']})"
    baselines = f"{alignment['diagonal_aer']:.2f} % for the diagonal, {alignment['random_aer']:.2f} % for random links"
    yield "  for comparison", baselines
    units = alignment["words"]
    if set(units.values()) != {"spaces"}:
        named = ", ".join(f"{unit if unit != 'spaces' else 'words'} of the {side}" for side, unit in units.items())
        yield "  links are between", named

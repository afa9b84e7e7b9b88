"""The short table that evaluate.py prints."""

import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..alignment.readout import describe_readout
from ..metrics.bleu import LEAST_BLEU_FOR_TER, explain_low_bleu

log = logging.getLogger(__name__)


def print_table(metrics: dict[str, Any], folder: Path) -> None:
    """Prints the metrics of an evaluation, where its results are, and what to do next."""
    print_rows(metrics)
    if "bleu" in metrics:
        words = metrics["reference_length"] / metrics["sentences"]
        if said := explain_low_bleu(metrics["bleu"], metrics["token_accuracy"], words, metrics["bleu_tokenizer"]):
            log.warning(said)
    log.info("results: %s", folder)
    runs = shlex.quote(str(folder.parents[2]))
    log.info("next:\n  open %s in a browser\n  tensorboard --logdir %s", folder / "viewer.html", runs)


def print_rows(metrics: dict[str, Any]) -> None:
    """Prints the metrics of an evaluation, as far as they are there."""
    rows = list(_rows(metrics))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        log.info("%-*s  %s", width, name, value)


def _rows(metrics: dict[str, Any]) -> Iterator[tuple[str, str]]:
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
    for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("chrF++", "chrf++")):
        yield name, f"{metrics[key]:.2f}   ({metrics['signatures'][key]})"
    if metrics["ter"] is None:
        yield "TER", f"not computed, since BLEU is below {LEAST_BLEU_FOR_TER:g}"
    else:
        yield "TER", f"{metrics['ter']:.2f} %, lower is better   ({metrics['signatures']['ter']})"
    words, expected = metrics["translation_length"], metrics["reference_length"]
    yield "length", f"{words} words for the references' {expected} (brevity penalty {metrics['brevity_penalty']:.3f})"


def _alignment_rows(alignment: dict[str, Any], label: str = "AER") -> Iterator[tuple[str, str]]:
    place = describe_readout(*(alignment[key] for key in ("layer", "head", "side", "linked")))
    rates = f"precision {alignment['precision']:.2f} %, recall {alignment['recall']:.2f} %"
    yield label, f"{alignment['aer']:.2f} %   ({rates}; {place}, chosen on {alignment['chosen_on']})"
    diagonal, at_random = alignment["diagonal_aer"], alignment["random_aer"]
    yield "  for comparison", f"{diagonal:.2f} % for the diagonal, {at_random:.2f} % for random links"
    units = alignment["words"]
    if set(units.values()) != {"spaces"}:
        named = ", ".join(f"{unit if unit != 'spaces' else 'words'} of the {side}" for side, unit in units.items())
        yield "  links are between", named

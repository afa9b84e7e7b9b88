"""What the checkup of a training says of its text."""

import json
from collections.abc import Iterator
from typing import Any

from ..config import RunConfig
from ..files.run_directory import RunDirectory
from ..text.corpus_report import describe_overlap
from ..text.prepare import TrainingText
from .checkup_line import CheckupLine

MANY_REPEATS = 20  # of a pair in an epoch


def describe_text(config: RunConfig, run: RunDirectory, text: TrainingText) -> Iterator[CheckupLine]:
    """Yields what the report on the text holds, and how long sentences are in tokens."""
    report = json.loads(run.corpus_report.read_text(encoding="utf-8"))
    dropped = report["pairs"] - report["kept"]
    yield CheckupLine(
        "text",
        f"{report['kept']:,} of {report['pairs']:,} training pairs"
        + (f" and {report['joined']:,} joined ones" if report["joined"] else "")
        + f", {len(text.validation):,} for validation",
        fine=dropped < 0.1 * report["pairs"],
    )
    if config.data.listed_corpora:
        yield from _describe_corpora(report)
    for name, shared in report["overlap"].items():
        if shared["sources"]:
            yield CheckupLine("text", describe_overlap(shared, name), fine=False)
    lengths = [f"{side.lengths.mean():.1f} and at most {side.lengths.max()}" for side in text.segmentations[0].sides]
    yield CheckupLine(
        "tokens",
        f"a vocabulary of {text.tokenizer.vocabulary_size:,}; a source has {lengths[0]} tokens, a target {lengths[1]}",
    )


def _describe_corpora(report: dict[str, Any]) -> Iterator[CheckupLine]:
    """Says which share of an epoch each corpus of a list has; one that comes very often has little to learn from."""
    for corpus in report["corpora"]:
        tag = "" if corpus["tag"] is None else f", tag {corpus['tag']}"
        left_out = sum(corpus.get("filtered", {}).values())
        yield CheckupLine(
            "corpus",
            f"{corpus['files']}: {corpus['kept']:,} of {corpus['pairs']:,} pairs"
            + (f" ({left_out:,} left out by filters)" if left_out else "")
            + f", {100 * corpus['share']:.1f} % of an epoch, each pair {corpus['repeats']:.2f} times{tag}",
            fine=corpus["repeats"] <= MANY_REPEATS and 2 * corpus["kept"] >= corpus["pairs"],
        )

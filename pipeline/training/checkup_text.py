"""What the checkup of a training says of its text."""

import json
from collections.abc import Iterator

from ..run_directory import RunDirectory
from ..text.corpus_report import describe_overlap
from ..text.prepare import TrainingText
from .machine_checkup import CheckupLine


def describe_text(run: RunDirectory, text: TrainingText) -> Iterator[CheckupLine]:
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
    for name, shared in report["overlap"].items():
        if shared["sources"]:
            yield CheckupLine("text", describe_overlap(shared, name), fine=False)
    lengths = [f"{side.lengths.mean():.1f} and at most {side.lengths.max()}" for side in text.segmentations[0].sides]
    yield CheckupLine(
        "tokens",
        f"a vocabulary of {text.tokenizer.vocabulary_size:,}; a source has {lengths[0]} tokens, a target {lengths[1]}",
    )

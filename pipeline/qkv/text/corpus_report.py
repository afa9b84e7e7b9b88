"""The contents of a run's `corpus_report.json`: odd pairs, and sentences that other sets share with the training
text."""

import logging
from collections.abc import Mapping
from typing import Any

from .cleaning import Findings
from .corpus import Corpus
from .overlap import SharedSentences, count_overlap

log = logging.getLogger(__name__)

MOST_LINES = 1000
"""Listed of each kind; of a corpus of millions, more would make a file that nobody can open."""


def report_findings(
    corpus: Corpus, findings: Findings, actions: Mapping[str, str], filtered: Findings, kept: int
) -> dict[str, Any]:
    """Counts the odd pairs of the training text by reason and lists the first `MOST_LINES` lines of each.

    Args:
        corpus: the training text.
        findings: of `find_odd_pairs`.
        actions: what was done with pairs of each of `CORPUS_PROBLEMS`: `drop` or `keep`.
        filtered: the pairs that filters left out; none where there are no filters.
        kept: how many pairs are trained on.
    """
    counts, left_out = findings.count(), filtered.count()
    for reason, count in counts.items():
        if count:
            log.info("%s: %d of the training pairs (%s)", reason, count, actions[reason])
    for reason, count in left_out.items():
        if count:
            log.info("%s: %d of the training pairs (data.filters)", reason, count)
    lines = {
        reason: [corpus.shown_line(row) for row in found.first_rows(reason, MOST_LINES)]
        for found in (findings, filtered)
        for reason in found.names
    }
    report = {
        "files": corpus.name,
        "pairs": len(corpus),
        "kept": kept,
        "found": {reason: {"action": actions[reason], "count": count} for reason, count in counts.items()},
        "lines": lines,
    }
    return report | ({"filtered": left_out} if filtered.names else {})


def report_overlap(shared: SharedSentences, other: Corpus, name: str) -> dict[str, Any]:
    """Counts what another set shares with the training text, lists its first lines, and warns of shared sources.

    Args:
        shared: the sentences of the other set that were met in the training text.
        other: the other set.
        name: what the warning calls it.
    """
    counted = count_overlap(shared, other)
    overlap = {
        "pairs": counted.pairs,
        "sources": counted.sources,
        "targets": counted.targets,
        "of": len(other),
        "lines": counted.lines[:MOST_LINES],
    }
    if counted.sources:
        log.warning("%s; corpus_report.json lists their lines", describe_overlap(overlap, name))
    return overlap


def describe_overlap(overlap: Mapping[str, Any], name: str) -> str:
    """Returns how many sources of a set are trained on, as `report_overlap` counted them, and the remedy."""
    return (
        f"{overlap['sources']:,} of {overlap['of']:,} {name} sources are in the training text, so that scores are too "
        f"high: set data.{name}: {{share: 0.01}} to hold out a set without such sentences, or remove them from one of "
        "the two"
    )

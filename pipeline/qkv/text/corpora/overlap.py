"""The sentences that two corpora share: scores on sentences that were trained on would be too high."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from .corpus import Corpus

log = logging.getLogger(__name__)
MOST_LINES = 1000  # listed of each kind; of a corpus of millions, more would make a file that nobody can open
Pair = tuple[str, str]


@dataclass(frozen=True)
class Overlap:
    """The number of pairs, source sentences and target sentences of a corpus that the training text also contains."""

    pairs: int
    sources: int
    targets: int
    lines: list[int]
    """The lines, from 1, of the source sentences that the training text also contains."""


@dataclass
class SharedSentences:
    """The sentences and pairs of another corpus that were met in the training text."""

    sources: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)

    def update(self, other: Self) -> None:
        """Adds what was met in another part of the training text."""
        self.sources |= other.sources
        self.targets |= other.targets
        self.pairs |= other.pairs


class SharedSentenceFinder:
    """Finds the sentences of a corpus in parts of the training text.

    Args:
        source: the sources of the corpus.
        target: its targets.
    """

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        self._whole = SharedSentences(set(source), set(target), set(zip(source, target, strict=True)))

    def find(self, sources: Iterable[str], targets: Iterable[str]) -> SharedSentences:
        """Returns what a part of the training text contains."""
        whole = self._whole
        shared = SharedSentences(whole.sources.intersection(sources), whole.targets.intersection(targets))
        if shared.sources and shared.targets:
            shared.pairs |= whole.pairs.intersection(zip(sources, targets, strict=True))
        return shared


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


def count_overlap(shared: SharedSentences, other: Corpus) -> Overlap:
    """Counts the lines of `other` whose sentences were met in the training text."""
    lines = [line for line, source in zip(other.line_numbers, other.source, strict=True) if source in shared.sources]
    return Overlap(
        pairs=sum(pair in shared.pairs for pair in other.pairs()),
        sources=len(lines),
        targets=sum(target in shared.targets for target in other.target),
        lines=lines,
    )


def describe_overlap(overlap: Mapping[str, Any], name: str) -> str:
    """Returns how many sources of a set are trained on, as `report_overlap` counted them, and the remedy."""
    return (
        f"{overlap['sources']:,} of {overlap['of']:,} {name} sources are in the training text, so that scores are too "
        f"high: set data.{name}: {{share: 0.01}} to hold out a set without such sentences, or remove them from one of "
        "the two"
    )

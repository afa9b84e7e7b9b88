"""The sentences that two corpora share: scores on sentences that were trained on would be too high."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from .corpus import Corpus

log = logging.getLogger(__name__)
MOST_LINES = 1000  # listed of each kind; of a corpus of millions, more would make a file that nobody can open


@dataclass
class SharedSentences:
    """The sentences and pairs of a corpus, all of them or the ones that were met in the training text."""

    sources: set[str]
    targets: set[str]
    pairs: set[tuple[str, str]]

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Returns all sentences and pairs of a corpus."""
        return cls(set(corpus.source), set(corpus.target), set(corpus.pairs()))

    def met_in(self, sources: Iterable[str], targets: Iterable[str]) -> "SharedSentences":
        """Returns the ones that a part of the training text contains."""
        shared = SharedSentences(self.sources.intersection(sources), self.targets.intersection(targets), set())
        if shared.sources and shared.targets:
            shared.pairs |= self.pairs.intersection(zip(sources, targets, strict=True))
        return shared

    def update(self, other: Self) -> None:
        """Adds what was met in another part of the training text."""
        self.sources |= other.sources
        self.targets |= other.targets
        self.pairs |= other.pairs


def report_overlap(shared: SharedSentences, other: Corpus, name: str) -> dict[str, Any]:
    """Counts what another set, which warnings call `name`, shares with the training text, lists its first lines, and
    warns of shared sources."""
    lines = [line for line, source in zip(other.line_numbers, other.source, strict=True) if source in shared.sources]
    overlap = {
        "pairs": sum(pair in shared.pairs for pair in other.pairs()),
        "sources": len(lines),
        "targets": sum(target in shared.targets for target in other.target),
        "of": len(other),
        "lines": lines[:MOST_LINES],
    }
    if lines:
        log.warning(
            "%s of %s %s sources are in the training text, so that scores are too high: set data.%s: {share: 0.01} to "
            "hold out a set without such sentences, or remove them from one of the two; corpus_report.json lists their "
            "lines",
            *(f"{len(lines):,}", f"{len(other):,}", name, name),
        )
    return overlap

"""Sentences of a validation or test set that the training text contains, too. Scores on them would be too high."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from .corpus import Corpus

log = logging.getLogger(__name__)
MOST_LINES = 1000
"""The number of lines that the report lists at most, so that a report on millions of pairs stays readable."""


@dataclass
class SharedSentences:
    """The sentences and pairs of a validation or test set: all of them, or those that the training text has, too.

    Args:
        sources: source sentences.
        targets: target sentences.
        pairs: `(source, target)`.
    """

    sources: set[str]
    targets: set[str]
    pairs: set[tuple[str, str]]

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Returns all sentences and pairs of a corpus."""
        return cls(set(corpus.source), set(corpus.target), set(corpus.pairs()))

    def shared_with(self, sources: Iterable[str], targets: Iterable[str]) -> "SharedSentences":
        """Returns the sentences and pairs that are also in a part of the training text.

        Args:
            sources: the source sentences of that part.
            targets: their translations, in the same order.
        """
        shared = SharedSentences(self.sources.intersection(sources), self.targets.intersection(targets), set())
        if shared.sources and shared.targets:
            shared.pairs |= self.pairs.intersection(zip(sources, targets, strict=True))
        return shared

    def update(self, other: Self) -> None:
        """Adds the sentences and pairs of `other`."""
        self.sources |= other.sources
        self.targets |= other.targets
        self.pairs |= other.pairs


def report_overlap(shared: SharedSentences, corpus: Corpus, name: str) -> dict[str, Any]:
    """Counts the sentences and pairs of a set that are also in the training text. Logs a warning if sources are shared.

    Args:
        shared: the sentences and pairs of the set that are in the training text.
        corpus: the pairs of the set.
        name: the name of the set, `validation` or `test`, for the warning.

    Returns:
        A dict for the corpus report. `pairs`, `sources` and `targets`: the number of lines of the set whose pair,
        source or target is shared. `of`: the number of pairs in the set. `lines`: the numbers of the first `MOST_LINES`
        lines with shared sources.
    """
    lines = [line for line, source in zip(corpus.line_numbers, corpus.source, strict=True) if source in shared.sources]
    overlap = {
        "pairs": sum(pair in shared.pairs for pair in corpus.pairs()),
        "sources": len(lines),
        "targets": sum(target in shared.targets for target in corpus.target),
        "of": len(corpus),
        "lines": lines[:MOST_LINES],
    }
    if lines:
        log.warning(
            "%s of %s %s sources are in the training text, so that scores are too high: set data.%s: {share: 0.01} to "
            "hold out a set without such sentences, or remove them from one of the two; corpus_report.json lists their "
            "lines",
            f"{len(lines):,}",
            f"{len(corpus):,}",
            name,
            name,
        )
    return overlap

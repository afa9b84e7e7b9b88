"""What two corpora share: scores on sentences that were trained on would be too high."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from .corpus import Corpus

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


def count_overlap(shared: SharedSentences, other: Corpus) -> Overlap:
    """Counts the lines of `other` whose sentences were met in the training text."""
    lines = [line for line, source in zip(other.line_numbers, other.source, strict=True) if source in shared.sources]
    return Overlap(
        pairs=sum(pair in shared.pairs for pair in other.pairs()),
        sources=len(lines),
        targets=sum(target in shared.targets for target in other.target),
        lines=lines,
    )

"""Aligns some pairs of a text in a process of its own, see `pipeline.spread`."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..spread import RunParts, spread
from ..text.pharaoh import Link
from ..text.words import WordUnits
from .linking import Linking
from .readout import ChosenReadout

PART_PAIRS = 1024  # a multiple of the pairs that a recorder batches together, so that the batches are the same


@dataclass(frozen=True)
class AlignPairs:
    """Aligns pairs by one run or by two.

    Args:
        directions: the run of each direction, where its links are read, and what counts as a word, as the first
            direction names the sides.
        linking: see `read_links`.
        subwords: see `choose_readouts`.
    """

    directions: tuple[tuple[RunParts, ChosenReadout, WordUnits], ...]
    linking: Linking
    subwords: bool

    def __call__(self, sides: tuple[Any, ...]) -> list[Collection[Link]]:
        """Returns the links of pairs: their sources, their targets, and the words of both where they are given."""
        loaded = [parts.run for parts, _, _ in self.directions]  # first: it loads TensorFlow quietly
        from .aligner import Direction, read_links

        source, target, source_words, target_words = sides
        texts = ((source, target, source_words, target_words), (target, source, target_words, source_words))
        directions = [
            Direction(run, own_source, own_target, readout, own_words, other_words, units)
            for run, (_, readout, units), (own_source, own_target, own_words, other_words) in zip(
                loaded, self.directions, texts, strict=False
            )
        ]
        return list(read_links(directions, self.linking, self.subwords))


def align_in_processes(
    directions: Sequence[Any],
    linking: Linking,
    subwords: bool,
    workers: int,
) -> Iterator[Collection[Link]]:
    """Yields the links of each pair as `read_links` does, computed by several processes, or by this one.

    Args:
        directions: each a `Direction`, as `choose_readouts` returns them.
        linking: see `read_links`.
        subwords: see `choose_readouts`.
        workers: the number of processes.
    """
    if workers == 1:
        from .aligner import read_links

        return read_links(directions, linking, subwords)
    first = directions[0]
    parts = tuple(
        (RunParts((one.run.directory.root,), "best", one.run.config), one.readout, one.units) for one in directions
    )
    sides = (first.source, first.target, first.source_words, first.target_words)
    links: Iterable[list[Collection[Link]]] = spread(
        AlignPairs(parts, linking, subwords),
        (
            tuple(None if side is None else list(side[start : start + PART_PAIRS]) for side in sides)
            for start in range(0, len(first.source), PART_PAIRS)
        ),
        workers,
    )
    return chain.from_iterable(links)

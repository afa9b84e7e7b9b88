"""Aligns some pairs of a text in a process of its own, see `qkv.run.processes`."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..run.processes import RunParts, spread
from ..text.corpora.word_links import Link
from ..text.tokens.words import WordUnits
from .aligned_text import AlignedText
from .linking import Linking
from .readout import ChosenReadout

PART_PAIRS = 1024  # a multiple of the pairs that a recorder batches together, so that the batches are the same


@dataclass(frozen=True)
class AlignPairs:
    """Aligns pairs by one run or by several.

    Args:
        directions: each run, where its links are read, what counts as a word on its own source and target, whether
            it reads the targets and writes the sources, and whether it normalises the text.
        linking: see `read_links`.
        subwords: see `choose_readouts`.
    """

    directions: tuple[tuple[RunParts, ChosenReadout, WordUnits, bool, bool], ...]
    linking: Linking
    subwords: bool

    def __call__(self, text: AlignedText) -> list[Collection[Link]]:
        """Returns the links of a part of the text."""
        loaded = [parts.run for parts, *_ in self.directions]  # first: it loads TensorFlow quietly
        from .aligner import Direction, read_links

        directions = [
            Direction(run, text.turned() if reverse else text, readout, units, reverse, normalizes)
            for run, (_, readout, units, reverse, normalizes) in zip(loaded, self.directions, strict=True)
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
    parts = tuple(
        (
            RunParts((one.run.directory.root,), "best", one.run.config),
            *(one.readout, one.units, one.reverse, one.normalizes),
        )
        for one in directions
    )
    text = directions[0].text
    links: Iterable[list[Collection[Link]]] = spread(
        AlignPairs(parts, linking, subwords),
        (text.part(start, start + PART_PAIRS) for start in range(0, len(text), PART_PAIRS)),
        workers,
    )
    return chain.from_iterable(links)

"""A corpus of sentence pairs in memory or on disk, a join of several corpora, and the shards of a corpus."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np

from ..lines.text_file import Lines

CHUNK_SENTENCES = 10_000
SHARD_PAIRS = 16_384
"""The number of pairs that are read at a time. Reading them takes at least half a second and little memory."""

Chunk = TypeVar("Chunk", Sequence[str], np.ndarray)
Item = TypeVar("Item", covariant=True)
Sides = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in the order of their file.

    Attributes:
        source: the source sentences.
        target: the target sentences; `target[i]` translates `source[i]`.
        line_numbers: the line of the file that each pair comes from, counted from 1. Some lines are missing if a split
            was selected.
        name: the path or paths of the files, for messages.
        joined: the corpora that this corpus joins, in their order; empty for a single corpus.
    """

    source: Sequence[str]
    target: Sequence[str]
    line_numbers: Sequence[int]
    name: str
    joined: "Sequence[Corpus]" = ()

    @property
    def parts(self) -> "Sequence[Corpus]":
        """The corpora that this corpus joins. A single corpus has one part: itself."""
        return self.joined or [self]

    @property
    def ends(self) -> list[int]:
        """For each part, the number of pairs in it and in all parts before it."""
        return list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return len(self.source)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Returns an iterator over `(source, target)`."""
        return zip(self.source, self.target, strict=True)

    def in_memory(self) -> "Corpus":
        """Returns a copy whose text is in memory, for short sets that are read several times."""
        return replace(self, source=list(self.source), target=list(self.target))

    def select(self, rows: np.ndarray) -> "Corpus":
        """Returns a corpus of the pairs in `rows`, int `(pairs,)` in ascending order."""
        if self.joined:
            starts = [0, *self.ends[:-1]]
            rows_by_part = np.split(rows, np.searchsorted(rows, starts[1:]))
            parts = [
                part.select(rows_of_part - start)
                for part, rows_of_part, start in zip(self.joined, rows_by_part, starts, strict=True)
            ]
            return _join(parts, self.name)

        def select(side: Sequence[str]) -> Sequence[str]:
            return side.select(rows) if isinstance(side, Lines) else [side[row] for row in rows]

        numbers = self.line_numbers
        selected = rows + numbers.start if isinstance(numbers, range) else np.asarray(numbers, np.int64)[rows]
        line_numbers = array("q", selected.astype(np.int64).tobytes())
        return Corpus(select(self.source), select(self.target), line_numbers, self.name)

    def location(self, index: int) -> str:
        """Returns `file:line` of the pair at `index`. In a joined corpus, the file is that of the pair's part."""
        if self.joined:
            number = bisect_right(self.ends, index)
            return self.joined[number].location(index - [0, *self.ends][number])
        return f"{self.name}:{self.line_numbers[index]}"

    def shown_line(self, index: int) -> int | str:
        """Returns the line of the pair at `index` for a report: its number, or `file:line` in a joined corpus."""
        return self.location(index) if self.joined else self.line_numbers[index]


def join_corpora(parts: Sequence[Corpus], of: str = "corpora") -> Corpus:
    """Joins corpora into one. A single corpus is returned unchanged.

    Args:
        parts: the corpora.
        of: the plural noun for them in the name of the joined corpus, `FILE, the first of 3 corpora`.
    """
    return parts[0] if len(parts) == 1 else _join(parts, f"{parts[0].name}, the first of {len(parts)} {of}")


def _join(parts: Sequence[Corpus], name: str) -> Corpus:
    """Returns the join of corpora, with a name for messages. No text is copied."""
    return Corpus(
        source=JoinedSequence([part.source for part in parts]),
        target=JoinedSequence([part.target for part in parts]),
        line_numbers=JoinedSequence([part.line_numbers for part in parts]),
        name=name,
        joined=parts,
    )


class JoinedSequence(Sequence[Item]):
    """A view of several sequences as one sequence. No item is copied.

    Args:
        parts: the sequences, in order.
    """

    def __init__(self, parts: Sequence[Sequence[Item]]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._parts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            rows = range(len(self))[index]
            if rows.step != 1:
                return [self[row] for row in rows]
            items: list[Item] = []
            for part, start in zip(self._parts, self._starts, strict=False):
                first, last = max(rows.start - start, 0), min(rows.stop - start, len(part))
                if first < last:
                    items += part[first:last]
            return items
        row = range(len(self))[index]
        number = bisect_right(self._starts, row) - 1
        return self._parts[number][row - self._starts[number]]


def chunks(sentences: Chunk) -> Iterator[Chunk]:
    """Yields slices of `CHUNK_SENTENCES` sentences, or rows of an array. The last slice may be shorter."""
    return (sentences[first : first + CHUNK_SENTENCES] for first in range(0, len(sentences), CHUNK_SENTENCES))


def is_large(corpus: Corpus) -> bool:
    """Returns whether a corpus has more than two shards, so that several processes are worth their start."""
    return len(corpus) > 2 * SHARD_PAIRS


def shards(corpus: Corpus) -> Iterator[Sides]:
    """Returns an iterator over the shards of a corpus: `(sources, targets)` of `SHARD_PAIRS` pairs each.

    The last shard may be smaller. An empty corpus has one empty shard.
    """
    return (shard_of(corpus, number) for number in shard_numbers(corpus))


def shard_numbers(corpus: Corpus) -> range:
    """Returns the numbers of the shards of a corpus, from 0."""
    return range(max(1, -(-len(corpus) // SHARD_PAIRS)))


def shard_of(corpus: Corpus, number: int) -> Sides:
    """Returns `(sources, targets)` of the shard with this number, from 0."""
    part = slice(number * SHARD_PAIRS, (number + 1) * SHARD_PAIRS)
    return corpus.source[part], corpus.target[part]

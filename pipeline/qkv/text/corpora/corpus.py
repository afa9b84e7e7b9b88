"""Sentence pairs in memory or on disk: one corpus, or several as one, and their division into shards."""

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
"""Read at once: half a second or more of work, and few enough that what is under way takes little memory."""
Chunk = TypeVar("Chunk", Sequence[str], np.ndarray)
Item = TypeVar("Item", covariant=True)
Sides = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in the order of the file: `source[i]` and `target[i]` translate each other."""

    source: Sequence[str]
    target: Sequence[str]
    line_numbers: Sequence[int]
    """The line of the file that each pair came from, from 1. It is not the index if a split was selected."""
    name: str
    """The path or paths of the files, for messages."""
    joined: "Sequence[Corpus]" = ()
    """Of several corpora as one: these, in their order."""

    @property
    def parts(self) -> "Sequence[Corpus]":
        """The corpora that were joined; a single corpus is its own part."""
        return self.joined or [self]

    @property
    def ends(self) -> list[int]:
        """The number of pairs up to the end of each part."""
        return list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return len(self.source)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields each source with its target."""
        return zip(self.source, self.target, strict=True)

    def in_memory(self) -> "Corpus":
        """Returns a copy with its text in memory, for short sets that are read again and again."""
        return replace(self, source=list(self.source), target=list(self.target))

    def select(self, rows: np.ndarray) -> "Corpus":
        """Returns the pairs of these rows, which must ascend."""
        if self.joined:
            firsts = [0, *self.ends[:-1]]
            chosen = np.split(rows, np.searchsorted(rows, firsts[1:]))
            parts = zip(self.joined, chosen, firsts, strict=True)
            return _join([part.select(own - first) for part, own, first in parts], self.name)
        source, target = (
            side.select(rows) if isinstance(side, Lines) else [side[row] for row in rows]
            for side in (self.source, self.target)
        )
        numbers = self.line_numbers
        own = rows + numbers.start if isinstance(numbers, range) else np.asarray(numbers, np.int64)[rows]
        return Corpus(source, target, array("q", own.astype(np.int64).tobytes()), self.name)

    def place(self, index: int) -> str:
        """Returns `file:line` of a pair, in the file of the part that it is of."""
        if self.joined:
            number = bisect_right(self.ends, index)
            return self.joined[number].place(index - [0, *self.ends][number])
        return f"{self.name}:{self.line_numbers[index]}"

    def shown_line(self, index: int) -> int | str:
        """Returns the line of a pair in a report: its number, or where there are several files, `file:line`."""
        return self.place(index) if self.joined else self.line_numbers[index]


def join_corpora(parts: Sequence[Corpus], of: str = "corpora") -> Corpus:
    """Returns several corpora as one, named as the first of so many; a single one as it is. `of` says what they are."""
    return parts[0] if len(parts) == 1 else _join(parts, f"{parts[0].name}, the first of {len(parts)} {of}")


def _join(parts: Sequence[Corpus], name: str) -> Corpus:
    fields = ("source", "target", "line_numbers")
    source, target, numbers = (JoinedSequence([getattr(part, field) for part in parts]) for field in fields)
    return Corpus(source, target, numbers, name, parts)


class JoinedSequence(Sequence[Item]):
    """The items of several sequences, one sequence after the other; read where they are, not copied."""

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
    """Yields sentences, or their rows, some thousand at a time."""
    return (sentences[first : first + CHUNK_SENTENCES] for first in range(0, len(sentences), CHUNK_SENTENCES))


def is_large(corpus: Corpus) -> bool:
    """Returns whether a corpus has more than a few shards."""
    return len(corpus) > 2 * SHARD_PAIRS


def shards(corpus: Corpus) -> Iterator[Sides]:
    """Yields the shards of a corpus, at least one."""
    return (shard_of(corpus, number) for number in shard_numbers(corpus))


def shard_numbers(corpus: Corpus) -> range:
    """Returns the numbers of the shards of a corpus, of which there is at least one."""
    return range(max(1, -(-len(corpus) // SHARD_PAIRS)))


def shard_of(corpus: Corpus, number: int) -> Sides:
    """Returns the sources and the targets of the shard of that number."""
    part = slice(number * SHARD_PAIRS, (number + 1) * SHARD_PAIRS)
    return corpus.source[part], corpus.target[part]

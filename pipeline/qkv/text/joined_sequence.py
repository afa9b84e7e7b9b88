"""Several sequences as one."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import TypeVar, overload

Item = TypeVar("Item", covariant=True)


class JoinedSequence(Sequence[Item]):
    """The items of several sequences, one sequence after the other; read where they are, not copied.

    Args:
        parts: the sequences.
    """

    def __init__(self, parts: Sequence[Sequence[Item]]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
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

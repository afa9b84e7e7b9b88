"""Encoded sentence pairs on disk, and the links between their tokens."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from .encoded import EncodedSentences

CHUNK_ROWS = 1 << 17


class EncodedPairs(NamedTuple):
    """Encoded sources and targets, in the same order, and optionally the links between their tokens.

    - links: for each pair flat numbers `source token, target token, source token, ...`, or None.
    """

    source: EncodedSentences
    target: EncodedSentences
    links: EncodedSentences | None = None

    @property
    def sides(self) -> tuple[EncodedSentences, EncodedSentences]:
        """Sources and targets."""
        return self.source, self.target

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedPairs":
        """Returns the pairs of `rows`, in that order, followed by the two pairs of each row `(first, second)` of
        `joined` as one pair."""
        if not len(joined) and _are_all(np.asarray(rows), len(self.source)):
            return self
        source, target = (side.select(rows, joined) for side in self.sides)
        if self.links is None:
            return EncodedPairs(source, target)
        links = chain((self.links[row] for row in rows), (self._join_links(*pair) for pair in joined))
        return EncodedPairs(source, target, EncodedSentences.from_rows(links))

    def _join_links(self, first: int, second: int) -> np.ndarray:
        assert self.links is not None
        # The tokens of the second pair come after those of the first.
        shift = np.array([len(side[first]) for side in self.sides], np.int32)
        return np.concatenate([self.links[first], (self.links[second].reshape(-1, 2) + shift).ravel()])

    def save(self, path: Path) -> None:
        """Writes `PATH.source`, `PATH.target` and, where there are links, `PATH.links`."""
        for name, sentences in self._asdict().items():
            if sentences is not None:
                sentences.save(Path(f"{path}.{name}"))

    @classmethod
    def load(cls, path: Path, linked: bool = False, vocabulary_size: int | None = None) -> "EncodedPairs":
        """Maps what `save` wrote, with links if `linked`.

        Raises:
            InputError: the files are missing or damaged, have different numbers of sentences, ids outside the
                vocabulary, or links to tokens that are not there.
        """
        names = ("source", "target", "links") if linked else ("source", "target")
        pairs = cls(*(EncodedSentences.load(Path(f"{path}.{name}")) for name in names))
        if len({len(sentences) for sentences in pairs if sentences is not None}) > 1:
            raise InputError(
                f"{path}: {len(pairs.source)} encoded sources and {len(pairs.target)} targets"
                f"{f' and links of {len(pairs.links)}' if pairs.links else ''}; train anew in another folder"
            )
        size = 1 << 31 if vocabulary_size is None else vocabulary_size
        if not (all(_are_below(side.ids, size) for side in pairs.sides) and pairs._link_own_tokens()):
            raise InputError(
                f"{path}: the encoded text has ids outside the vocabulary of {size:,} tokens, or links "
                "outside its sentences; restore the run's own files, or train anew in another folder"
            )
        return pairs

    def _link_own_tokens(self) -> bool:
        if self.links is None:
            return True
        counts = self.links.lengths
        if (counts % 2).any():
            return False
        ends = zip(self.links.ids.reshape(-1, 2).T, self.sides, strict=True)
        return all(
            bool((side >= 0).all() and (side < np.repeat(text.lengths, counts // 2)).all()) for side, text in ends
        )


def _are_all(rows: np.ndarray, total: int) -> bool:
    """Returns whether the rows are all there are, in their order."""
    firsts = range(0, total, CHUNK_ROWS)
    return len(rows) == total and all(
        np.array_equal(rows[first : first + CHUNK_ROWS], np.arange(first, min(first + CHUNK_ROWS, total)))
        for first in firsts
    )


def _are_below(ids: np.ndarray, end: int) -> bool:
    return len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < end)

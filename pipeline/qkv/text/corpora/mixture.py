"""Epochs of several corpora, each with its share: a pure function of seed and epoch."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError

WHOLE_PAIRS = 1 << 20  # a larger corpus is shuffled by shards of neighbouring pairs
SHARD_PAIRS = 1 << 13
"""Pairs that stay together where pairs are shuffled by shards, so that few places of the disk are read at a time."""
Ranges = Sequence[tuple[int, int]]


class Mixture:
    """The pairs of each corpus in an epoch.

    An epoch has as many pairs as the corpora that take part have together, divided by their shares. Of each corpus it
    takes the next ones of an endless sequence: the corpus shuffled, then shuffled anew, and so on. So every pair of a
    corpus comes equally often but for one time, over all epochs together, and a corpus with a small share is seen to
    its end before a pair comes again.

    Args:
        ranges: for each corpus where its pairs are among all: first row and the row after the last, of each part.
        shares: the share of each corpus; a corpus without pairs has 0.
        seed: of the order.

    Attributes:
        counts: the number of pairs of each corpus in an epoch.
        pairs: the number of pairs of an epoch.
        repeats: the average number of times that a pair of each corpus comes in an epoch.
    """

    def __init__(self, ranges: Sequence[Ranges], shares: Sequence[float], seed: int) -> None:
        self._corpora = [_Corpus(own, seed, number) for number, own in enumerate(ranges)]
        self.shares = list(shares)
        total = sum(corpus.pairs for corpus, share in zip(self._corpora, shares, strict=True) if share)
        self.counts = _divide(total, shares)
        self.pairs = sum(self.counts)
        self.repeats = [count / max(own.pairs, 1) for own, count in zip(self._corpora, self.counts, strict=True)]
        assert all(corpus.pairs for corpus, count in zip(self._corpora, self.counts, strict=True) if count)

    def rows(self, epoch: int, window: int = 0, windows: int = 1) -> np.ndarray:
        """Returns the rows of a window of an epoch; every window has the shares of the whole epoch.

        Args:
            epoch: from 0.
            window: from 0.
            windows: the number of windows of the epoch.
        """
        parts = []
        for corpus, count in zip(self._corpora, self.counts, strict=True):
            first, last = (epoch * count + count * number // windows for number in (window, window + 1))
            parts += corpus.rows(first, last)
        return np.concatenate(parts)


class _Corpus:
    """The endless sequence of the pairs of a corpus."""

    def __init__(self, ranges: Ranges, seed: int, number: int) -> None:
        self._firsts = np.array([first for first, _ in ranges], np.int64)
        self._ends = np.cumsum([last - first for first, last in ranges])
        self.pairs = int(self._ends[-1])
        self._seed, self._number = seed, number

    def rows(self, first: int, last: int) -> list[np.ndarray]:
        """Returns the rows at places `first` to `last` of the sequence, in parts."""
        parts = [np.zeros(0, np.int64)]
        while first < last:
            turn, place = divmod(first, self.pairs)
            count = min(last - first, self.pairs - place)
            places = self._shuffled(turn, place, place + count)
            part = np.searchsorted(self._ends, places, "right")
            parts.append(places - np.concatenate([[0], self._ends])[part] + self._firsts[part])
            first += count
        return parts

    def _shuffled(self, turn: int, first: int, last: int) -> np.ndarray:
        """Returns some places of the corpus as it is shuffled for the turn of that number."""
        generator = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self._number, turn)))
        if self.pairs <= WHOLE_PAIRS:
            return generator.permutation(self.pairs)[first:last]
        order = generator.permutation(count_shards(self.pairs))
        ends = np.cumsum(np.minimum((order + 1) * SHARD_PAIRS, self.pairs) - order * SHARD_PAIRS)
        here = slice(int(np.searchsorted(ends, first, "right")), int(np.searchsorted(ends, last, "left")) + 1)
        places = rows_of_shards(order[here], self.pairs)
        before = int(ends[here.start - 1]) if here.start else 0
        return places[first - before : last - before]


def count_shards(pairs: int) -> int:
    """Returns the number of shards of so many pairs."""
    return -(-pairs // SHARD_PAIRS)


def rows_of_shards(shards: np.ndarray, pairs: int) -> np.ndarray:
    """Returns the rows of the shards with these numbers, in a corpus of so many pairs."""
    rows = (shards[:, None] * SHARD_PAIRS + np.arange(SHARD_PAIRS)).ravel()
    return rows[rows < pairs]


def _divide(total: int, shares: Sequence[float]) -> list[int]:
    """Divides a number by shares, so that the parts differ from them by less than one and add up to it."""
    exact = np.asarray(shares, float) * total
    parts = np.floor(exact).astype(np.int64)
    largest = np.argsort(parts - exact, kind="stable")[: total - int(parts.sum())]
    parts[largest] += 1
    return parts.tolist()


def make_mixture(
    corpora: Sequence[Mapping[str, Any]], weights: Sequence[float] | None, temperature: float | None, seed: int
) -> Mixture:
    """Makes the mixture of a list of corpora.

    Args:
        corpora: of each corpus what `corpus_report.json` says: its files, and how many pairs are kept and joined.
        weights: the shares are in proportion to these; None to take `pairs ** (1 / temperature)`, as in Arivazhagan et
            al. (2019), "Massively Multilingual Neural Machine Translation in the Wild", section 4.2.
        temperature: at least 1; 1 leaves the corpora as large as they are.
        seed: of the run.

    Raises:
        InputError: nothing is left of a corpus that has a weight.
    """
    ranges = ranges_of(corpora)
    sizes = [sum(last - first for first, last in own) for own in ranges]
    for corpus, size, weight in zip(corpora, sizes, weights or (), strict=False):
        if weight and not size:
            raise InputError(
                f"{corpus['files']}: no pair of this corpus is left, and its weight is not 0; expected some, or "
                "weight: 0; see data.max_* and data.filters in the config"
            )
    raw = np.asarray(sizes, float) ** (1 / (temperature or 1.0)) if weights is None else np.asarray(weights, float)
    return Mixture(ranges, (raw / raw.sum()).tolist(), seed)


def ranges_of(corpora: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the rows of the kept and of the joined pairs of each corpus, as `(first, row after the last)`."""
    ends = np.cumsum([0, *(corpus[key] for key in ("kept", "joined") for corpus in corpora)]).tolist()
    parts = list(pairwise(ends))
    return list(zip(parts[: len(corpora)], parts[len(corpora) :], strict=True))

"""Mixtures of several corpora, each with a share of the epoch. An epoch depends only on the seed and its number."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError

WHOLE_PAIRS = 1 << 20
"""The number of pairs up to which a corpus is shuffled pair by pair. A larger one is shuffled by blocks."""

SHUFFLE_BLOCK_PAIRS = 1 << 13
"""The number of neighbouring pairs in a block. Blocks keep the reads of a file close together."""

Ranges = Sequence[tuple[int, int]]
"""The rows of a corpus among the rows of all corpora, as ranges `(first row, row after the last)`."""


class Mixture:
    """Chooses the pairs of each epoch from several corpora.

    The length of an epoch is the number of pairs in all corpora with a share above 0. It is divided among the corpora
    by their shares. Each corpus is an endless sequence: all its pairs shuffled, then all of them shuffled differently,
    and so on. Each epoch continues the sequence where the last epoch stopped. So the counts of two pairs of a corpus
    differ by at most one, and a corpus with a small share is used up before a pair is repeated.

    Args:
        ranges: for each corpus the ranges of its rows.
        shares: the share of each corpus; they add up to 1. A corpus without pairs has the share 0.
        seed: the seed of the order.

    Attributes:
        counts: the number of pairs of each corpus in an epoch.
        pairs: the number of pairs in an epoch.
        repeats: for each corpus, the mean number of times that a pair is in an epoch.
    """

    def __init__(self, ranges: Sequence[Ranges], shares: Sequence[float], seed: int) -> None:
        self._corpora = [_ShuffledCorpus(rows, seed, number) for number, rows in enumerate(ranges)]
        self.shares = list(shares)
        total = sum(corpus.pairs for corpus, share in zip(self._corpora, shares, strict=True) if share)
        self.counts = _divide(total, shares)
        self.pairs = sum(self.counts)
        self.repeats = [count / max(corpus.pairs, 1) for corpus, count in zip(self._corpora, self.counts, strict=True)]
        assert all(corpus.pairs for corpus, count in zip(self._corpora, self.counts, strict=True) if count)

    def rows(self, epoch: int, window: int = 0, windows: int = 1) -> np.ndarray:
        """Returns the rows of the pairs in a window of an epoch. Each window has the shares of the whole epoch.

        Args:
            epoch: the number of the epoch, from 0.
            window: the number of the window, from 0.
            windows: the number of windows in the epoch.

        Returns:
            int64 `(rows,)`: first the rows of the first corpus, then the rows of the second corpus, and so on.
        """
        parts = []
        for corpus, count in zip(self._corpora, self.counts, strict=True):
            first = epoch * count + count * window // windows
            last = epoch * count + count * (window + 1) // windows
            parts += corpus.rows(first, last)
        return np.concatenate(parts)


class _ShuffledCorpus:
    """The endless sequence of the pairs of a corpus: passes over all pairs, each in a different random order.

    Args:
        ranges: the ranges of the corpus' rows.
        seed: the seed of the order.
        number: the number of the corpus. Corpora of different numbers are shuffled differently.
    """

    def __init__(self, ranges: Ranges, seed: int, number: int) -> None:
        self._firsts = np.array([first for first, _ in ranges], np.int64)
        self._ends = np.cumsum([last - first for first, last in ranges])
        self.pairs = int(self._ends[-1])
        self._seed = seed
        self._number = number

    def rows(self, first: int, last: int) -> list[np.ndarray]:
        """Returns the rows of the pairs at positions `first` to before `last` of the sequence, in several arrays."""
        parts = [np.zeros(0, np.int64)]
        while first < last:
            pass_number, start = divmod(first, self.pairs)
            count = min(last - first, self.pairs - start)
            indices = self._shuffled(pass_number, start, start + count)
            part = np.searchsorted(self._ends, indices, "right")
            parts.append(indices - np.concatenate([[0], self._ends])[part] + self._firsts[part])
            first += count
        return parts

    def _shuffled(self, pass_number: int, first: int, last: int) -> np.ndarray:
        """Returns a part of the order of the pairs in one pass over the corpus.

        Args:
            pass_number: the number of the pass, from 0. Each pass has a different order.
            first: the first position of the part in the order, from 0.
            last: the position after the part.

        Returns:
            The indices of the pairs in the corpus, from 0, int `(last - first,)`.
        """
        generator = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self._number, pass_number)))
        if self.pairs <= WHOLE_PAIRS:
            return generator.permutation(self.pairs)[first:last]
        order = generator.permutation(count_blocks(self.pairs))
        ends = np.cumsum(np.minimum((order + 1) * SHUFFLE_BLOCK_PAIRS, self.pairs) - order * SHUFFLE_BLOCK_PAIRS)
        first_block = int(np.searchsorted(ends, first, "right"))
        last_block = int(np.searchsorted(ends, last, "left"))
        indices = rows_of_blocks(order[first_block : last_block + 1], self.pairs)
        before = int(ends[first_block - 1]) if first_block else 0
        return indices[first - before : last - before]


def count_blocks(pairs: int) -> int:
    """Returns the number of blocks in a corpus of `pairs` pairs."""
    return -(-pairs // SHUFFLE_BLOCK_PAIRS)


def rows_of_blocks(blocks: np.ndarray, pairs: int) -> np.ndarray:
    """Returns the rows of the pairs in some blocks of a corpus, int `(rows,)`.

    Args:
        blocks: the numbers of the blocks, int `(blocks,)`.
        pairs: the number of pairs in the corpus. Its last block may be shorter.
    """
    rows = (blocks[:, None] * SHUFFLE_BLOCK_PAIRS + np.arange(SHUFFLE_BLOCK_PAIRS)).ravel()
    return rows[rows < pairs]


def _divide(total: int, shares: Sequence[float]) -> list[int]:
    """Divides a number into whole numbers by shares. They add up to `total`, and each is within 1 of its exact part."""
    exact = np.asarray(shares, float) * total
    parts = np.floor(exact).astype(np.int64)
    largest_remainders = np.argsort(parts - exact, kind="stable")[: total - int(parts.sum())]
    parts[largest_remainders] += 1
    return parts.tolist()


def make_mixture(
    corpora: Sequence[Mapping[str, Any]], weights: Sequence[float] | None, temperature: float | None, seed: int
) -> Mixture:
    """Makes the mixture of a list of corpora.

    Args:
        corpora: the entry of each corpus in `corpus_report.json`. It has its `files` and its numbers of pairs, `kept`
            and `joined`.
        weights: the shares are proportional to these numbers, at least 0. None makes them proportional to
            `pairs ** (1 / temperature)` (Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in
            the Wild", section 4.2).
        temperature: at least 1. At 1, shares are proportional to the numbers of pairs. None is 1.
        seed: the run's seed.

    Raises:
        InputError: a corpus with a weight above 0 has no pair left.
    """
    ranges = ranges_of(corpora)
    sizes = [sum(last - first for first, last in parts) for parts in ranges]
    for corpus, size, weight in zip(corpora, sizes, weights or (), strict=False):
        if weight and not size:
            raise InputError(
                f"{corpus['files']}: no pair of this corpus is left, and its weight is not 0; expected some, or "
                "weight: 0; see data.max_* and data.filters in the config"
            )
    if weights is None:
        proportions = np.asarray(sizes, float) ** (1 / (temperature or 1.0))
    else:
        proportions = np.asarray(weights, float)
    return Mixture(ranges, (proportions / proportions.sum()).tolist(), seed)


def ranges_of(corpora: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns for each corpus the range of its kept pairs' rows and the range of its joined pairs' rows.

    A range is `(first row, row after the last)`. The kept pairs of all corpora come first, then all joined pairs.

    Args:
        corpora: for each corpus a dict with the numbers of `kept` and of `joined` pairs.
    """
    ends = np.cumsum([0, *(corpus[key] for key in ("kept", "joined") for corpus in corpora)]).tolist()
    parts = list(pairwise(ends))
    return list(zip(parts[: len(corpora)], parts[len(corpora) :], strict=True))

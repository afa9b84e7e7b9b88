"""The sentences of each batch of an epoch, a pure function of seed and epoch. They are planned in windows of sentences.

Letters: B sentences of a batch, S source length with EOS, T target length with BOS or EOS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from .corpora.mixture import Mixture, count_blocks, rows_of_blocks
from .tokens.encoding import EncodedPairs

FORCED_BATCH_TOKENS = 1536  # in batches of teacher-forced passes; larger batches pad more and were not faster
WINDOW_PAIRS = 1 << 20  # are planned together: a corpus of up to this many pairs is one window, sorted as a whole


@dataclass(frozen=True)
class BatchPlan:
    """The sentences of each batch, and the size of the batches.

    Args:
        batches: for each batch the numbers of its sentences, int `(B,)`; for packed batches see
            `text.packing.plan_packed_batches`.
        tokens: the number of tokens in all batches, source and target, with EOS.
        positions: for each batch the number of positions of source and target: tokens and padding.
    """

    batches: list[np.ndarray]
    tokens: int
    positions: list[int]

    @property
    def padding_share(self) -> float:
        """The share of padding among all positions, from 0 to 1."""
        return 1 - self.tokens / sum(self.positions) if self.positions else 0.0


class EpochPlan:
    """The batches of an epoch, a pure function of the lengths, the seed and the epoch.

    The pairs are divided into windows of about `WINDOW_PAIRS` pairs. The batches of a window are planned together, and
    at most one window is in memory. With a mixture, every window has pairs of all corpora in their shares. Without a
    mixture, each epoch shuffles blocks of neighbouring pairs and divides the blocks among the windows.

    Args:
        pairs: the encoded pairs.
        plan: `plan_batches` or `text.packing.plan_packed_batches`, with the settings of batches; it takes the lengths
            of sources and targets and the argument `seeds`.
        seed: the seed of the order.
        epoch: the number of the pass over the data, from 0. Each epoch has another order.
        mixture: chooses the pairs of the epoch; None takes every pair once.

    Attributes:
        count: the number of batches.
        tokens: the number of tokens in all batches, source and target, with EOS.
        padding_share: the share of padding among all positions, from 0 to 1.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        plan: Callable[..., BatchPlan],
        *,
        seed: int,
        epoch: int,
        mixture: Mixture | None = None,
    ) -> None:
        self._pairs = pairs
        self._plan = plan
        self._seeds = seed, epoch
        self._windows: Sequence[Callable[[], np.ndarray]]
        if mixture is not None:
            windows = -(-mixture.pairs // WINDOW_PAIRS)
            self._windows = [partial(mixture.rows, epoch, number, windows) for number in range(windows)]
        else:
            windows_of_blocks = _draw_windows(len(pairs.source), seed, epoch)
            self._windows = [partial(rows_of_blocks, blocks, len(pairs.source)) for blocks in windows_of_blocks]
        self._planned: tuple[int, BatchPlan] | None = None
        plans = map(self.window, range(len(self._windows)))
        totals = [(len(plan.batches), plan.tokens, sum(plan.positions)) for plan in plans]
        counts, tokens, positions = np.array(totals, np.int64).reshape(-1, 3).T
        self._ends = np.cumsum(counts).tolist()
        self.count, self.tokens = int(counts.sum()), int(tokens.sum())
        self.padding_share = BatchPlan([], self.tokens, positions.tolist()).padding_share

    def window(self, number: int) -> BatchPlan:
        """Returns the plan of the window with this number, from 0. The latest plan is cached."""
        if self._planned is None or self._planned[0] != number:
            rows = self._windows[number]()
            seeds = (*self._seeds, number) if number else self._seeds
            plan = self._plan(*(side.lengths_of(rows) for side in self._pairs.sides), seeds=seeds)
            rows = np.append(rows, -1)  # in packed batches, -1 stays -1
            self._planned = number, replace(plan, batches=[rows[batch] for batch in plan.batches])
        return self._planned[1]

    def batches(self, first: int = 0) -> Iterator[np.ndarray]:
        """Yields the sentence numbers of each batch, int `(B,)`, from batch number `first` on, counted from 0."""
        for number, (start, end) in enumerate(pairwise([0, *self._ends])):
            if end > first:
                yield from self.window(number).batches[max(0, first - start) :]


def _draw_windows(pairs: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns for each window the numbers of its blocks of pairs, see `text.corpora.mixture.rows_of_blocks`."""
    blocks = np.arange(count_blocks(pairs))
    if pairs <= WINDOW_PAIRS:
        return [blocks]
    shuffled = np.random.default_rng((seed, epoch, 0)).permutation(blocks)
    return np.array_split(shuffled, -(-pairs // WINDOW_PAIRS))


def plan_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    seeds: Sequence[int],
    batch_tokens: int,
    length_multiple: int = 1,
) -> BatchPlan:
    """Divides sentences into batches of similar lengths, as large as `batch_tokens` allows, and shuffles the batches.

    It is a pure function, so the position of a training in its data is given by epoch and batch number.

    Args:
        source_lengths: int `(sentences,)`, tokens without EOS.
        target_lengths: int `(sentences,)`, tokens without BOS and EOS.
        seeds: the seeds of the order: the seed, the epoch from 0 and, unless it is 0, the number of the window.
        batch_tokens: the maximum number of positions, padding included, of either side of a batch. A longer sentence is
            a batch by itself.
        length_multiple: each side is padded to its longest sentence, rounded up to a multiple of this.
    """
    generator = np.random.default_rng(seeds)
    shuffled = generator.permutation(len(source_lengths))
    source, target = (
        round_up(np.asarray(side, np.int32) + 1, length_multiple) for side in (source_lengths, target_lengths)
    )
    # Source lengths ascend and descend in turn, so that they do not jump when the next target length begins.
    turn = np.where(target // length_multiple % 2, source, -source)
    order = shuffled[np.lexsort((turn[shuffled], target[shuffled]))]
    batches = _cut_into_batches(order, np.maximum(source, target), batch_tokens)
    tokens = int(np.sum(source_lengths) + np.sum(target_lengths)) + 2 * len(shuffled)
    generator.shuffle(batches)
    positions = [len(rows) * (int(source[rows].max()) + int(target[rows].max())) for rows in batches]
    return BatchPlan(batches, tokens, positions)


def batches_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batch_tokens: int = FORCED_BATCH_TOKENS
) -> list[np.ndarray]:
    """Divides sentences into batches of similar lengths, for passes whose result does not depend on the order.

    Sentences are sorted by their longer side, which limits the number of sentences in a batch. On a few hundred
    captions this leaves a quarter less padding than sorting by one side and then by the other.

    Args:
        source_lengths: int `(sentences,)`, the positions of each source, at least 1.
        target_lengths: int `(sentences,)`, the positions of each target, at least 1.
        batch_tokens: the maximum number of positions, padding included, of either side of a batch. A longer sentence is
            a batch by itself.

    Returns:
        The numbers of the sentences of each batch, shortest first.
    """
    longer = np.maximum(source_lengths, target_lengths)
    return _cut_into_batches(np.lexsort((source_lengths + target_lengths, longer)), longer, batch_tokens)


def _cut_into_batches(order: np.ndarray, widths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cuts ordered sentence numbers into batches of up to `batch_tokens` positions.

    Args:
        order: the sentence numbers.
        widths: the positions of the longer side of each sentence, int `(sentences,)`, at least 1.
        batch_tokens: the maximum of sentences times longest width in a batch. A wider sentence is a batch by itself.
    """
    batches = []
    first = 0
    ordered = widths[order]
    while first < len(order):
        most = batch_tokens // int(ordered[first]) + 1  # one more than fit if none is wider than the first
        widest = np.maximum.accumulate(ordered[first : first + most])
        fits = widest * np.arange(1, len(widest) + 1) <= batch_tokens
        count = len(fits) if fits.all() else max(int(fits.argmin()), 1)
        batches.append(order[first : first + count])
        first += count
    return batches


def round_up(lengths: np.ndarray | int, multiple: int):
    """Returns a length, or an array of lengths, rounded up to multiples of `multiple`."""
    return -(-lengths // multiple) * multiple

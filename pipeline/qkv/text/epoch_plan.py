"""The batches of an epoch of a corpus of any size, planned a window of sentences at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from .batch_plan import BatchPlan, plan_batches
from .coarse_batches import plan_coarse_batches
from .encoded_pairs import EncodedPairs
from .mixture import Mixture

WINDOW_PAIRS = 1 << 20
"""Planned together: a corpus of up to as many is one window, sorted as a whole."""

SHARD_PAIRS = 1 << 13
"""Pairs that stay together when a corpus of several windows is shuffled, so that a window reads few places of the
disk."""


class EpochPlan:
    """The batches of an epoch, a pure function of the lengths, the seed and the epoch.

    With a mixture, every window has pairs of all corpora in their shares. Otherwise a corpus of several windows is
    cut into shards of neighbouring pairs. Each epoch shuffles the shards and divides
    them among windows; the batches of a window are those of `plan_batches`. Memory and time are those of a window.

    Args:
        pairs: the encoded pairs.
        batch_tokens: see `plan_batches`.
        length_multiple: see `plan_batches`.
        seed: see `plan_batches`.
        epoch: see `plan_batches`.
        mixture: which pairs the epoch has; None: every pair once.
        lengths: see `plan_coarse_batches`, which then plans the batches; None for `plan_batches`.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        *,
        batch_tokens: int,
        length_multiple: int,
        seed: int,
        epoch: int,
        mixture: Mixture | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self._pairs = pairs
        kind: Callable[..., BatchPlan] = partial(plan_batches, length_multiple=length_multiple)
        if lengths is not None:
            kind = partial(plan_coarse_batches, lengths=lengths)
        self._plan_window = partial(kind, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        self._windows: Sequence[Callable[[], np.ndarray]]
        if mixture is not None:
            windows = -(-mixture.pairs // WINDOW_PAIRS)
            self._windows = [partial(mixture.rows, epoch, number, windows) for number in range(windows)]
        else:
            drawn = _draw_windows(len(pairs.source), seed, epoch)
            self._windows = [partial(_rows_of, shards, len(pairs.source)) for shards in drawn]
        self._in_order = mixture is None and len(self._windows) == 1
        self._planned: tuple[int, BatchPlan] | None = None
        self._ends: list[int] = []  # the number of batches up to the end of each window, as far as they were planned
        self._tokens = self._positions = 0

    def window(self, number: int) -> BatchPlan:
        """Returns the batches of a window. The windows before it have been planned."""
        if self._planned is None or self._planned[0] != number:
            self._planned = number, self._plan(number)
        plan = self._planned[1]
        if number == len(self._ends):
            self._ends.append(len(plan.batches) + (self._ends[-1] if self._ends else 0))
            self._tokens += plan.tokens
            self._positions += plan.positions
        return plan

    def _plan(self, number: int) -> BatchPlan:
        rows = self._windows[number]()
        lengths = (side.lengths_of(rows) for side in self._pairs.sides)
        plan = self._plan_window(*lengths, window=number)
        return plan if self._in_order else replace(plan, batches=[rows[batch] for batch in plan.batches])

    def batches(self, first: int = 0) -> Iterator[np.ndarray]:
        """Yields the sentence numbers of each batch, from batch `first` on."""
        start = 0
        for number in range(len(self._windows)):
            if number >= len(self._ends) or self._ends[number] > first:
                yield from self.window(number).batches[max(0, first - start) :]
            start = self._ends[number]

    def is_end(self, batch: int) -> bool:
        """Returns whether the epoch is over after so many batches, all of which have been made."""
        return len(self._ends) == len(self._windows) and batch == self._ends[-1]

    @property
    def count(self) -> int:
        """The number of batches. All windows are planned for it once."""
        for number in range(len(self._ends), len(self._windows)):
            self.window(number)
        return self._ends[-1]

    @property
    def padding_share(self) -> float:
        """How much of all positions is padding, from 0 to 1, in the windows planned so far."""
        return 1 - self._tokens / self._positions if self._positions else 0.0


def _draw_windows(pairs: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns the shards of each window."""
    shards = np.arange(-(-pairs // SHARD_PAIRS))
    if pairs <= WINDOW_PAIRS:
        return [shards]
    shuffled = np.random.default_rng((seed, epoch, 0)).permutation(shards)
    return np.array_split(shuffled, -(-pairs // WINDOW_PAIRS))


def _rows_of(shards: np.ndarray, pairs: int) -> np.ndarray:
    rows = (shards[:, None] * SHARD_PAIRS + np.arange(SHARD_PAIRS)).ravel()
    return rows[rows < pairs]

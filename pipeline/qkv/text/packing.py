"""Packed batches: rows of one length that hold several sentence pairs each, so that all batches have the same shape.

Sentences of a row follow one another without padding, and models tell them apart by their numbers (Krell et al. 2021,
"Efficient Sequence Packing without Cross-contamination"). The pairs of each batch are a function of seed and epoch.

Letters: S source length of a row, T target length of a row.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from .batch_plan import BatchPlan, round_up

LENGTH_MULTIPLE = 8  # tensor cores multiply matrices of multiples of 8
MOST_PADDING = 0.04  # longer rows are taken for less padding, but attention over them costs more
MOST_TIMES = 8  # rows are at most this many times as long as the longest sentence
FINENESS = 16  # lengths that are tried differ by a multiple of 8, from 128 on by about a sixteenth
SAMPLE_PAIRS = 1 << 15  # by which lengths and shares are chosen
SHARES = 1.0, 0.9, 0.8, 0.7, 0.6, 0.5  # which of them leaves the least padding depends on the text


def choose_row_lengths(
    source_lengths: np.ndarray, target_lengths: np.ndarray, *, longest: tuple[int, int], most: int
) -> tuple[tuple[int, int], int]:
    """Chooses the lengths of rows: the shortest that leave at most `MOST_PADDING` padding, in multiples of 8.

    The two lengths are in the ratio of the numbers of tokens of both sides, as far as their longest sentences allow.

    Args:
        source_lengths: the lengths of a sample of the pairs, tokens without EOS, int `(pairs,)`.
        target_lengths: the lengths of their targets.
        longest: the lengths of the longest source and of the longest target of all pairs, without EOS.
        most: the maximum length, unless a sentence is longer.

    Returns:
        S and T, and the number of rows that the sample fills. If no lengths leave so little padding, they are those
        that leave the least.
    """
    least = [int(round_up(length + 1, LENGTH_MULTIPLE)) for length in longest]
    source, target = source_lengths.astype(np.int64) + 1, target_lengths.astype(np.int64) + 1
    tokens = np.array([source.sum(), target.sum()])

    def padding_share(rows: float, lengths: tuple[int, int]) -> float:
        return 1 - float(tokens.sum() / (rows * sum(lengths))) if rows else 0.0

    # The padding that would be left if each row were full of the side of which there is more.
    bounds = [
        (padding_share(float((tokens / lengths).max()), lengths), lengths)
        for lengths in _row_lengths(least, float(tokens[1] / max(tokens[0], 1)), most)
    ]
    best = 1.0, bounds[0][1], 0
    for _, lengths in [bound for bound in bounds if bound[0] < MOST_PADDING] or [min(bounds)]:
        rows = int(_pack(source, target, lengths).max(initial=-1)) + 1
        best = min(best, (padding_share(rows, lengths), lengths, rows))
        if best[0] <= MOST_PADDING:
            break
    return best[1:]


def _row_lengths(least: Sequence[int], ratio: float, most: int) -> Iterator[tuple[int, int]]:
    """Yields pairs of row lengths, ascending.

    Args:
        least: the least S and the least T.
        ratio: target tokens for each source token; 0 if there are none.
        most: the maximum, unless `least` has more.
    """
    length = max(least)
    while length <= max(least) * MOST_TIMES and (length <= most or length == max(least)):
        ideal = (length / ratio, length) if ratio > 1 else (length, length * ratio)
        nearest = (round(side / LENGTH_MULTIPLE) * LENGTH_MULTIPLE for side in ideal)
        source, target = (max(pair) for pair in zip(nearest, least, strict=True))
        yield source, target
        length += int(round_up(max(length // FINENESS, 1), LENGTH_MULTIPLE))


def plan_packed_batches(
    source_lengths: np.ndarray, target_lengths: np.ndarray, *, seeds: Sequence[int], shape: tuple[int, int, int]
) -> BatchPlan:
    """Packs pairs into rows, and divides the rows in random order among batches of nearly equal numbers of rows.

    Args:
        source_lengths: int `(pairs,)`, tokens without EOS.
        target_lengths: int `(pairs,)`, tokens without BOS and EOS.
        seeds: see `text.batch_plan.plan_batches`.
        shape: the maximum number of rows in a batch, S and T. No sentence with EOS may be longer.

    Returns:
        The plan. A batch has the numbers of the pairs in each row, filled up with -1: int
        `(rows, most pairs of a row)`. The positions of rows that are missing in a batch are counted as padding.
    """
    generator = np.random.default_rng(seeds)
    shuffled = generator.permutation(len(source_lengths))
    source, target = (np.asarray(side, np.int64)[shuffled] + 1 for side in (source_lengths, target_lengths))
    row_count, *lengths = shape
    row_of_pair = _pack(source, target, (lengths[0], lengths[1]))
    rows = int(row_of_pair.max(initial=-1)) + 1
    count = -(-rows // row_count)
    # Rows that are filled last differ from the others in their sentences, so all are mixed.
    row_of_pair = generator.permutation(rows)[row_of_pair]
    order = np.argsort(row_of_pair, kind="stable")
    ends = np.cumsum(np.bincount(row_of_pair, minlength=rows))
    batches = []
    for first, last in pairwise([rows * number // count for number in range(count + 1)] if count else []):
        ends_of_rows = ends[first:last]
        starts = np.concatenate([ends[first - 1 : first] if first else [0], ends_of_rows[:-1]])
        sizes = ends_of_rows - starts
        is_used = np.arange(sizes.max()) < sizes[:, None]
        batch = np.full(is_used.shape, -1, np.int64)
        batch[is_used] = shuffled[order[starts[0] : ends_of_rows[-1]]]
        batches.append(batch)
    tokens = int(source.sum() + target.sum())
    return BatchPlan(batches, tokens, [row_count * sum(lengths)] * count)


def _pack(source: np.ndarray, target: np.ndarray, lengths: tuple[int, int]) -> np.ndarray:
    """Returns the number of the row of each pair, int `(pairs,)`; rows are numbered from 0.

    A share of the rows that the pairs need at least is filled at a time, from all pairs that are left. The share is the
    one of `SHARES` that leaves the least padding in a sample.

    Args:
        source: the lengths of the sources with EOS, int64 `(pairs,)`, in random order.
        target: the lengths of the targets with EOS.
        lengths: S and T.
    """
    sample = source[:SAMPLE_PAIRS], target[:SAMPLE_PAIRS]
    trials = [_fill_by_shares(*sample, lengths, share) for share in SHARES]
    best = min(range(len(SHARES)), key=lambda number: trials[number].max(initial=0))
    return trials[best] if len(source) <= SAMPLE_PAIRS else _fill_by_shares(source, target, lengths, SHARES[best])


def _fill_by_shares(source: np.ndarray, target: np.ndarray, lengths: tuple[int, int], share: float) -> np.ndarray:
    """Returns the row of each pair, see `_pack`. `share` is the share of the rows that are filled at a time."""
    row_of_pair = np.full(len(source), -1)
    rows = 0
    left = np.arange(len(source))
    while len(left):
        needed = max(int(source[left].sum()) / lengths[0], int(target[left].sum()) / lengths[1])
        count = max(int(needed * share), 1)
        filled = _fill(source[left], target[left], lengths, count)
        row_of_pair[left] = np.where(filled < 0, -1, filled + rows)
        left = left[filled < 0]
        rows += count
    return row_of_pair


def _fill(source: np.ndarray, target: np.ndarray, lengths: tuple[int, int], rows: int) -> np.ndarray:
    """Fills a number of rows in rounds, and returns the row of each pair; -1 for pairs that are left over.

    In each round every row gets one pair: about the largest that fits, and the rows with the most room the largest
    pairs. Among rows of nearly equal room, those with more room for sources get pairs with longer sources. A row whose
    pair does not fit tries smaller ones in later rounds. At least the longest pair gets a row.

    Sizes, room and differences are sums and differences of both sides, as shares of S and T, in units of 1 / (S T).

    Args:
        source, target, lengths: see `_pack`.
        rows: the number of rows, at least 1.
    """
    source_unit, target_unit = lengths[1], lengths[0]
    nearly = 4 * source_unit
    source_room, target_room = np.full(rows, lengths[0]), np.full(rows, lengths[1])
    limits = np.full(rows, 2 * lengths[0] * lengths[1])  # of the sizes that a row tries
    row_of_pair = np.full(len(source), -1)
    sizes, differences = source * source_unit + target * target_unit, source * source_unit - target * target_unit
    left = np.argsort(-sizes, kind="stable")  # the largest first, and so in all rounds
    sizes_left = -sizes[left]
    open_rows = np.arange(rows)
    while len(left) and len(open_rows):
        room = source_room * source_unit + target_room * target_unit
        bounds = np.minimum(room, limits)[open_rows]
        order = np.argsort(-bounds, kind="stable")
        open_rows, bounds = open_rows[order], bounds[order]
        # The first pair that is small enough and that no row before this one takes.
        numbers = np.arange(len(open_rows))
        small_enough = np.searchsorted(sizes_left, -bounds)
        taken = np.maximum.accumulate(small_enough - numbers) + numbers
        served = int(np.searchsorted(taken, len(left)))
        open_rows, taken = open_rows[:served], taken[:served]
        groups = -(bounds[:served] // nearly)
        room_differences = source_room * source_unit - target_room * target_unit
        open_rows = open_rows[np.lexsort((room_differences[open_rows], groups))]
        taken = taken[np.lexsort((differences[left[taken]], groups))]
        pairs = left[taken]
        fits = (source[pairs] <= source_room[open_rows]) & (target[pairs] <= target_room[open_rows])
        tried_rows, too_large = open_rows[~fits], sizes[pairs[~fits]]
        balanced = 2 * np.minimum(source_room[tried_rows] * source_unit, target_room[tried_rows] * target_unit)
        limits[tried_rows] = np.minimum(balanced, too_large - source_unit)
        used_rows, used_pairs = open_rows[fits], pairs[fits]
        row_of_pair[used_pairs] = used_rows
        source_room[used_rows] -= source[used_pairs]
        target_room[used_rows] -= target[used_pairs]
        is_left = np.ones(len(left), bool)
        is_left[taken[fits]] = False
        left, sizes_left = left[is_left], sizes_left[is_left]
    return row_of_pair

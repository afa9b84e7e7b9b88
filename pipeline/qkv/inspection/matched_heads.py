"""Matches the heads of two models by the overlap of their attention.

The heads of a layer are exchangeable: trainings with different seeds number them differently.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .record import Record


class MatchedHeads(NamedTuple):
    """The correspondence between the heads of two models.

    - heads: int `(layers, H)`, the head of the second model for each head of the first model, in the same layer.
    - overlap: the share of a row's weight that two matched heads put on the same tokens, from 0 to 1; a mean over rows
      and heads.
    - sentences: the number of sentences that were used.
    """

    heads: np.ndarray
    overlap: float
    sentences: int


def match_heads(pairs: Iterable[tuple[Record, Record]]) -> MatchedHeads | None:
    """Matches the heads of two models so that the overlap of their cross-attention is as large as possible.

    Heads are matched within their layer: exchanging the heads of a layer gives an equivalent model, exchanging layers
    does not.

    Args:
        pairs: records of the same sentences by both models. Pairs with different tokens are left out, because their
            rows predict different tokens. Sentences with an empty side are left out, too.

    Returns:
        The matched heads; None if all pairs are left out, or if the models have different numbers of layers or heads.
    """
    overlap = np.zeros(())
    rows = 0
    sentences = 0
    for first, second in pairs:
        if first.source_tokens != second.source_tokens or first.target_output_tokens != second.target_output_tokens:
            continue
        if first.has_empty_side:
            continue
        first_weights = first.attention["cross"]
        second_weights = second.attention["cross"]
        if first_weights.shape != second_weights.shape:
            return None
        # The overlap of two distributions is the sum of the smaller weight at each token.
        overlap = overlap + np.minimum(first_weights[:, :, None], second_weights[:, None]).sum(axis=(-2, -1))
        rows += first_weights.shape[2]
        sentences += 1
    if not rows or not overlap.size:
        return None
    overlap = overlap / rows
    heads = np.stack([best_assignment(layer) for layer in overlap])
    matched = np.take_along_axis(overlap, heads[..., None], axis=-1)
    return MatchedHeads(heads, float(matched.mean()), sentences)


def best_assignment(gain: np.ndarray) -> np.ndarray:
    """Solves the assignment problem: pairs rows with columns so that the sum of gains is as large as possible.

    It is the Hungarian method (Kuhn 1955) with shortest augmenting paths (Jonker and Volgenant 1987), in time n^3.

    Args:
        gain: the gain of each row and column, `(n, n)`.

    Returns:
        int `(n,)`, the column of each row.
    """
    cost = -np.asarray(gain, np.float64)
    size = len(cost)
    # An additional row and column of index `size`: the search for the column of each row starts there.
    row_price = np.zeros(size + 1)
    column_price = np.zeros(size + 1)
    row_of = np.full(size + 1, -1)
    for row in range(size):
        row_of[size] = row
        column = size
        distance = np.full(size, np.inf)
        before = np.full(size, size)
        reached = np.zeros(size + 1, bool)
        while row_of[column] >= 0:
            reached[column] = True
            current_row = row_of[column]
            reduced_cost = cost[current_row] - row_price[current_row] - column_price[:size]
            nearer = ~reached[:size] & (reduced_cost < distance)
            distance[nearer] = reduced_cost[nearer]
            before[nearer] = column
            nearest = int(np.argmin(np.where(reached[:size], np.inf, distance)))
            step = distance[nearest]
            row_price[row_of[reached]] += step
            column_price[reached] -= step
            distance[~reached[:size]] -= step
            column = nearest
        while column != size:
            row_of[column], column = row_of[before[column]], before[column]
        row_of[size] = -1
    columns = np.empty(size, int)
    columns[row_of[:size]] = np.arange(size)
    return columns

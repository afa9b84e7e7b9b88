"""Heads of two models that do the same, matched by the best assignment: heads of a layer are exchangeable, so two seeds
number them differently."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .record import Record


class MatchedHeads(NamedTuple):
    """The heads of a model that stand for the heads of another one.

    - heads: int `(layers, H)`, for each head of the first model the head of the second one, in the same layer.
    - overlap: the mean share of a row's weight that two matched heads put on the same tokens, from 0 to 1.
    - sentences: how many they were matched on.
    """

    heads: np.ndarray
    overlap: float
    sentences: int


def match_heads(pairs: Iterable[tuple[Record, Record]]) -> MatchedHeads | None:
    """Matches the heads of two models by their cross-attention, so that matched heads overlap most.

    Heads keep their layers: exchanging heads within a layer gives the same model, exchanging layers does not.

    Args:
        pairs: records of the same sentences by both models. Those whose targets differ are left out, because their rows
            predict different tokens; and those with an empty side.

    Returns:
        None if no sentence has the same target, or the models have other layers or heads.
    """
    overlap, rows, sentences = np.zeros(()), 0, 0
    for first, second in pairs:
        if first.source_tokens != second.source_tokens or first.target_output_tokens != second.target_output_tokens:
            continue
        if first.has_empty_side:
            continue
        a, b = first.attention["cross"], second.attention["cross"]
        if a.shape != b.shape:
            return None
        # The part that two distributions share is their smaller weight at each token.
        overlap = overlap + np.minimum(a[:, :, None], b[:, None]).sum(axis=(-2, -1))
        rows, sentences = rows + a.shape[2], sentences + 1
    if not rows or not overlap.size:
        return None
    overlap = overlap / rows
    heads = np.stack([best_assignment(layer) for layer in overlap])
    matched = np.take_along_axis(overlap, heads[..., None], axis=-1)
    return MatchedHeads(heads, float(matched.mean()), sentences)


def best_assignment(gain: np.ndarray) -> np.ndarray:
    """Pairs rows with columns so that the sum of gains `(n, n)` is the largest (the Hungarian method, Kuhn 1955, in the
    form with shortest paths of Jonker and Volgenant 1987), in time n^3: int `(n,)`, the column of each row."""
    cost = -np.asarray(gain, np.float64)
    size = len(cost)
    # One more row and column, of index `size`, where the search for a place for each row starts.
    row_price, column_price = np.zeros(size + 1), np.zeros(size + 1)
    row_of = np.full(size + 1, -1)
    for row in range(size):
        row_of[size], column = row, size
        distance, before = np.full(size, np.inf), np.full(size, size)
        reached = np.zeros(size + 1, bool)
        while row_of[column] >= 0:
            reached[column] = True
            here = row_of[column]
            found = cost[here] - row_price[here] - column_price[:size]
            nearer = ~reached[:size] & (found < distance)
            distance[nearer], before[nearer] = found[nearer], column
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

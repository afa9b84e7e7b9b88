"""Which heads of two models do the same: heads of a layer are exchangeable, so two seeds number them differently."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...statistics.assignment import best_assignment
from ..record import Record


class MatchedHeads(NamedTuple):
    """The heads of a model that stand for those of another one.

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

"""Pairs that are joined with others, so that a model trained on short sentences meets longer ones."""

from collections.abc import Sequence

import numpy as np

from .encoded_pairs import EncodedPairs


def draw_joined_pairs(
    kept: np.ndarray,
    segmentations: Sequence[EncodedPairs],
    *,
    share: float,
    max_source_tokens: int,
    max_target_tokens: int,
    seed: int | Sequence[int],
) -> np.ndarray:
    """Draws rows `(first, second)` of kept pairs that together fit the longest lengths in every segmentation.

    Args:
        kept: the rows of the pairs to draw from.
        segmentations: the pairs, in each segmentation.
        share: how many are drawn, as a share of the kept pairs; those that do not fit are left out.
        max_source_tokens: of both sources together.
        max_target_tokens: of both targets together.
        seed: of the draw.
    """
    count = len(kept)
    pairs = kept[np.random.default_rng(seed).integers(count, size=(round(share * count), 2))]
    fits = np.ones(len(pairs), bool)
    for segmentation in segmentations:
        fits &= segmentation.source.lengths_of(pairs).sum(axis=1) <= max_source_tokens
        fits &= segmentation.target.lengths_of(pairs).sum(axis=1) <= max_target_tokens
    return pairs[fits]

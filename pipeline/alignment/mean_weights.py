"""Combines the attention of two directions before links are read off it, not the links that each alone gives."""

from collections.abc import Sequence

import numpy as np

from ..inspection.record import Record
from ..text.pharaoh import Link
from .links import as_links
from .readout import AlignmentReadout
from .symmetrise import grow_along_diagonals

LEAST_NEIGHBOUR = 0.4
"""The mean weight above which a link is added beside another: chosen on `data/manythings/alignments`."""


def links_of_mean(readouts: Sequence[AlignmentReadout], records: Sequence[Record]) -> set[Link]:
    """Links words by the mean of two directions' weights.

    What one direction is sure of counts, even if the other one hardly sees it, as it does not where only the links are
    compared. Words are linked that each have the largest mean weight of the other; then neighbours of links whose mean
    weight is above `LEAST_NEIGHBOUR`, if one of the two words has no link yet, as `grow_diag` adds them.

    Args:
        readouts: where the weights of each direction are read; the way of linking makes no difference.
        records: the record of each; the second one's source is the target of the first.

    Returns:
        The links in the first direction.
    """
    forward, backward = (readout.word_weights(record) for readout, record in zip(readouts, records, strict=True))
    mean = _sum(forward, backward.T) / 2
    if not mean.size:
        return set()
    largest = (mean == mean.max(axis=0)) & (mean == mean.max(axis=1, keepdims=True)) & (mean > 0)
    links = as_links(largest)
    return links | grow_along_diagonals(links, as_links(mean > LEAST_NEIGHBOUR) - links)


def _sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Adds matrices of which one may have fewer rows or columns, since a model may have cut the sentence short."""
    total = np.zeros(np.maximum(first.shape, second.shape))
    for matrix in (first, second):
        total[: matrix.shape[0], : matrix.shape[1]] += matrix
    return total

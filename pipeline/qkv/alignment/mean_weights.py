"""Combines the attention of several runs before links are read off it, not the links that each alone gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from ..inspection.record import Record
from ..text.corpora.word_links import Link
from .links import as_links
from .readout import AlignmentReadout
from .symmetrise import grow_along_diagonals

LEAST_NEIGHBOUR = 0.4
"""The mean weight above which a link is added beside another: chosen on `data/manythings/alignments`."""


@dataclass(frozen=True)
class MeanLinks:
    """Links words by the mean of several runs' weights: that of each direction's mean, so both count the same.

    What one run is sure of counts, even if another one hardly sees it, as it does not where only the links are
    compared. Words are linked that each have the largest mean weight of the other; then neighbours of links whose mean
    weight is above `LEAST_NEIGHBOUR`, if one of the two words has no link yet, as `grow_diag` adds them.

    Args:
        reverse: of each run, whether it reads the target and writes the source.
    """

    reverse: Sequence[bool] = (False, True)

    def __call__(self, readouts: Sequence[AlignmentReadout], records: Sequence[Record]) -> set[Link]:
        """Returns the links of a pair, from source to target.

        Args:
            readouts: where the weights of each run are read; the way of linking makes no difference.
            records: the record of each.
        """
        weights = [readout.word_weights(record) for readout, record in zip(readouts, records, strict=True)]
        turned = [matrix.T if reverse else matrix for matrix, reverse in zip(weights, self.reverse, strict=True)]
        directions = ([not reverse for reverse in self.reverse], self.reverse)
        mean = _mean([_mean(list(compress(turned, chosen))) for chosen in directions if any(chosen)])
        if not mean.size:
            return set()
        largest = (mean == mean.max(axis=0)) & (mean == mean.max(axis=1, keepdims=True)) & (mean > 0)
        links = as_links(largest)
        return links | grow_along_diagonals(links, as_links(mean > LEAST_NEIGHBOUR) - links)


def _mean(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Averages matrices of which some may have fewer rows or columns, since a model may have cut the sentence short."""
    total = np.zeros(np.max([matrix.shape for matrix in matrices], axis=0))
    for matrix in matrices:
        total[: matrix.shape[0], : matrix.shape[1]] += matrix
    return total / len(matrices)

"""The linked words of a sentence pair, by the attention of one run, or of several whose attention is combined before
links are read off it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from ..config.names.inspection import MEAN_WEIGHTS, PROBABLE
from ..inspection.record import Record
from ..text.corpora.word_links import Link
from .link_probabilities import Calibration, LinkProbabilities
from .links import SYMMETRISATIONS, Symmetrisation, as_links, grow_along_diagonals
from .readout import AlignmentReadout, ChosenReadout

Linking = Callable[[Sequence[ChosenReadout], Sequence[Record]], Collection[Link]]
"""Links the words of a pair. Takes where the links of each run are read, and the record of each (one of the opposite
direction has the target as its source); returns links (source word, target word)."""


@dataclass(frozen=True)
class SymmetrisedLinks:
    """The links of the readouts; of two, they are combined."""

    symmetrise: Symmetrisation

    def __call__(self, readouts: Sequence[ChosenReadout], records: Sequence[Record]) -> set[Link]:
        links, *opposite = (readout.links(record) for readout, record in zip(readouts, records, strict=True))
        return self.symmetrise(links, {(i, j) for j, i in opposite[0]}) if opposite else links


@dataclass(frozen=True)
class ProbableLinks:
    """The links that are more probable than the threshold of a calibration."""

    calibration: Calibration

    def __call__(self, readouts: Sequence[ChosenReadout], records: Sequence[Record]) -> set[Link]:
        return self.calibration.probabilities.links(records, self.calibration.threshold)


@dataclass(frozen=True)
class WithProbabilities:
    """Links as the keys of a dictionary of their probabilities."""

    linking: Linking
    probabilities: LinkProbabilities

    def __call__(self, readouts: Sequence[ChosenReadout], records: Sequence[Record]) -> dict[Link, float]:
        return self.probabilities.of_links(self.linking(readouts, records), records)


def make_linking(
    way: str,
    calibration: Calibration | None = None,
    with_probabilities: bool = False,
    reverse: Sequence[bool] = (False, True),
) -> Linking:
    """Returns how the words of a pair are linked.

    Args:
        way: how runs are combined: one of `names.inspection.SYMMETRISATIONS` or `PROBABLE`, which are of one run or of
            two opposite ones, or `MEAN_WEIGHTS`, which is of any number.
        calibration: needed for `PROBABLE` and `with_probabilities`.
        with_probabilities: whether links have their probabilities.
        reverse: for `MEAN_WEIGHTS`, of each run, whether it reads the target and writes the source.
    """
    linking: Linking
    if way == PROBABLE:
        assert calibration is not None
        linking = ProbableLinks(calibration)
    else:
        linking = MeanLinks(tuple(reverse)) if way == MEAN_WEIGHTS else SymmetrisedLinks(SYMMETRISATIONS[way])
    if not with_probabilities:
        return linking
    assert calibration is not None
    return WithProbabilities(linking, calibration.probabilities)


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

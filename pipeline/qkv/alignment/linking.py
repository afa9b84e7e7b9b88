"""Which words of a sentence pair are linked, by the attention of one run or of several."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..config.names.inspection import MEAN_WEIGHTS, PROBABLE
from ..inspection.record import Record
from ..text.corpora.word_links import Link
from .calibration import Calibration
from .link_probabilities import LinkProbabilities
from .mean_weights import MeanLinks
from .readout import ChosenReadout
from .symmetrise import SYMMETRISATIONS, Symmetrisation

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

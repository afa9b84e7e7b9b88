"""Which words of a sentence pair are linked, by the attention of one run or of two."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..inspection.record import Record
from ..text.pharaoh import Link
from .calibration import Calibration
from .readout import ChosenReadout
from .symmetrise import Symmetrisation


@dataclass(frozen=True)
class Linking:
    """How the words of a sentence pair are linked.

    Args:
        symmetrise: combines the links of two directions; None to link the words that the calibration finds more
            probable than its threshold.
        calibration: the probabilities of links; needed where links are combined by them or are to have them.
        with_probabilities: whether links are given with their probabilities.
    """

    symmetrise: Symmetrisation | None
    calibration: Calibration | None = None
    with_probabilities: bool = False

    def __call__(self, readouts: Sequence[ChosenReadout], records: Sequence[Record]) -> Collection[Link]:
        """Returns the links of a pair, (source word, target word) in the first direction; with probabilities they are
        the keys of a dictionary.

        Args:
            readouts: where the links of each direction are read.
            records: the record of each; the second one's source is the target of the first.
        """
        calibration = self.calibration
        if self.symmetrise is None:
            assert calibration is not None
            links = calibration.probabilities.links(records, calibration.threshold)
        else:
            links, *opposite = (readout.links(record) for readout, record in zip(readouts, records, strict=True))
            if opposite:
                links = self.symmetrise(links, {(i, j) for j, i in opposite[0]})
        if not self.with_probabilities:
            return links
        assert calibration is not None
        return calibration.probabilities.of_links(links, records)

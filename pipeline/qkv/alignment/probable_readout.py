"""A readout with calibrated probabilities of its links, which are a way of linking too."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..config.names.inspection import PROBABLE
from ..inspection.record import Record
from ..statistics.logistic_regression import reliability_table
from ..statistics.resampling import ratio_interval
from ..text.corpora.word_links import Link
from .calibration import Calibration, error_of_links
from .error_rate import AlignmentCounts
from .gold import GoldSet
from .heads import LINK_COUNTS, error_terms
from .links import as_links
from .readout import ChosenReadout


@dataclass(frozen=True)
class ProbableReadout(ChosenReadout):
    """A chosen readout, and the probabilities of links in its layer.

    Its `extraction` is one of `names.inspection.EXTRACTIONS`, or `PROBABLE`: the links with a probability above the
    threshold of the calibration. `plain` is the readout without probabilities.
    """

    calibration: Calibration = field(kw_only=True)
    plain: ChosenReadout = field(kw_only=True)

    @classmethod
    def of(cls, readout: ChosenReadout, calibration: Calibration, aer: float | None) -> "ProbableReadout":
        """Adds the calibration to a readout.

        Args:
            readout: the readout.
            calibration: that of its layer.
            aer: the readout's error rate on the same pairs, 0 to 1; where the calibration's is lower, links become
                those above its threshold. None: links stay as they are.
        """
        known = {one.name: getattr(readout, one.name) for one in fields(ChosenReadout)}
        if aer is not None and calibration.aer < aer:
            known["extraction"] = PROBABLE
        return cls(**known, calibration=calibration, plain=readout)

    def links(self, record: Record) -> set[Link]:
        """Reads the word links of a record."""
        if self.extraction != PROBABLE:
            return super().links(record)
        return self.calibration.probabilities.links([record], self.calibration.threshold)

    def link_probabilities(self, record: Record) -> dict[Link, float]:
        """Reads the word links of a record with their probabilities."""
        return self.calibration.probabilities.of_links(self.links(record), [record])

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it."""
        return super().to_json() | {"threshold": self.calibration.threshold}


class ProbableScores(NamedTuple):
    """How probable links fare on a set with gold links.

    Attributes:
        row: their row for the table of `score_heads`, without `eos_share`.
        sentences: what each sentence counts, as `sentence_counts_of`.
        reliability: the table of `reliability_table` over the word pairs with a weight.
        error: the expected calibration error of that table, see `error_of_links`; 0 to 1.
    """

    row: dict[str, Any]
    sentences: pd.DataFrame
    reliability: pd.DataFrame
    error: float


def score_probable(readout: ProbableReadout, records: Iterable[Record], gold_set: GoldSet) -> ProbableScores:
    """Scores the links above the threshold, and compares all probabilities with gold links.

    Args:
        readout: its calibration is of other pairs.
        records: those of the pairs of the set, with given targets.
        gold_set: the set.
    """
    calibration, counts = readout.calibration, []
    predicted: list[float] = []
    right: list[bool] = []
    for record, gold in zip(records, gold_set.gold, strict=True):
        matrix = calibration.probabilities.matrix([record])
        counts.append(AlignmentCounts.of(as_links(matrix > calibration.threshold), gold))
        words = np.argwhere(matrix > 0)
        predicted.extend(matrix[tuple(words.T)])
        right.extend((int(i), int(j)) in gold.possible for j, i in words)
    places = {"layer": readout.layer, "head": readout.head}
    names = dict(zip(LINK_COUNTS, ("links", "sure", "links_in_sure", "links_in_possible"), strict=True))
    sentences = pd.DataFrame(
        [
            {"id": number, **places, **{column: getattr(one, name) for column, name in names.items()}}
            for number, one in enumerate(counts)
        ]
    )
    low, high = ratio_interval(*(term[:, None] for term in error_terms(sentences[list(LINK_COUNTS)].to_numpy())))
    row = {"site": readout.site, **places, "side": readout.side, "linked": PROBABLE}
    row |= asdict(sum(counts, AlignmentCounts()).score()) | {"aer_low": float(low[0]), "aer_high": float(high[0])}
    table = reliability_table(np.array(predicted), np.array(right, bool))
    return ProbableScores(row, sentences, pd.DataFrame(table), error_of_links(table))

"""The place in a model's attention where word alignments are read, the links that are read there, and their calibrated
probabilities."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from ..config.names.inspection import PROBABLE, SITES
from ..inspection.record import Record
from ..text.corpora.word_links import Link
from .link_probabilities import Calibration, probabilities_of
from .links import as_links, extract_links
from .word_matrix import grouped_attention, spread_links

MEAN_HEAD = "mean"
"""How the tables name the average of a layer's heads."""


def describe_readout(layer: int, head: int | str, side: str, extraction: str) -> str:
    """Says where links are read, and how."""
    where = "all heads on both sides" if extraction == PROBABLE else f"head {head}, {side} side"
    return f"layer {layer}, {where}, {extraction} links"


def aligned_sites() -> list[str]:
    """Returns the attention sites from which alignments can be read."""
    return [name for name, site in SITES.items() if site.aligns]


@dataclass(frozen=True)
class AlignmentReadout:
    """The place where alignments are read, and the way of reading.

    Args:
        layer: from 0.
        head: from 0, or `mean` for the average of the layer's heads.
        side: the target tokens that the rows align, `output` or `input`; see `row_words`.
        extraction: which words are linked, one of `config.names.inspection.EXTRACTIONS`.
        site: the attention that is read, one of `aligned_sites()`.
    """

    layer: int
    head: int | str
    side: str
    extraction: str = "target"
    site: str = "cross"

    @classmethod
    def from_row(cls, row: "pd.Series[Any]", **others: Any) -> Self:
        """Returns the readout that a row of the table of `HeadCounts` describes."""
        return cls(
            int(row["layer"]),
            row["head"],
            str(row["side"]),
            extraction=str(row["linked"]),
            site=str(row["site"]),
            **others,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it, where the extraction is called `linked`."""
        return {"layer": self.layer, "head": self.head, "side": self.side, "linked": self.extraction, "site": self.site}

    def weights(self, record: Record) -> np.ndarray:
        """Returns the attention `(T, S)` that is read."""
        heads = record.attention[self.site][self.layer]
        return heads.mean(axis=0) if self.head == MEAN_HEAD else heads[int(self.head)]

    def links(self, record: Record) -> set[Link]:
        """Reads the word links of a record."""
        return as_links(read_links(record, self.weights(record), self.side, self.extraction))

    def word_weights(self, record: Record) -> np.ndarray:
        """Returns the attention between words, `(target words, source words)`; words of one token have its weights."""
        return spread_links(*grouped_attention(record, self.weights(record), self.side))


@dataclass(frozen=True)
class ChosenReadout(AlignmentReadout):
    """A readout, and the name of the set (or another reason) that chose it."""

    chosen_on: str = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it."""
        return super().to_json() | {"chosen_on": self.chosen_on}


def read_links(record: Record, weights: np.ndarray, side: str, extraction: str) -> np.ndarray:
    """Returns the links of words, bool `(..., target words, source words)`, read off attention `(..., T, S)`."""
    matrix, source, target = grouped_attention(record, weights, side)
    return spread_links(extract_links(matrix, extraction), source, target)


@dataclass(frozen=True)
class ProbableReadout(ChosenReadout):
    """A chosen readout, and the probabilities of links in its layer.

    Its `extraction` is one of `names.inspection.EXTRACTIONS`, or `PROBABLE`: the links with a probability above the
    threshold of the calibration. `plain` is the readout without probabilities.
    """

    calibration: Calibration = field(kw_only=True)
    plain: ChosenReadout = field(kw_only=True)

    @classmethod
    def of(cls, readout: ChosenReadout, calibration: Calibration, aer: float) -> "ProbableReadout":
        """Adds the calibration to a readout.

        Args:
            readout: the readout.
            calibration: the calibration of its layer.
            aer: the readout's error rate on the same pairs, 0 to 1; where the calibration's is lower, the links become
                the ones above its threshold.
        """
        known = vars(readout)
        if calibration.aer < aer:
            known = known | {"extraction": PROBABLE}
        return cls(**known, calibration=calibration, plain=readout)

    def links(self, record: Record) -> set[Link]:
        """Reads the word links of a record."""
        return super().links(record) if self.extraction != PROBABLE else set(self.link_probabilities(record))

    def link_probabilities(self, record: Record) -> dict[Link, float]:
        """Reads the word links of a record with their probabilities."""
        matrix = self.calibration.probabilities.matrix([record])
        if self.extraction != PROBABLE:
            return probabilities_of(super().links(record), matrix)
        return probabilities_of(as_links(matrix > self.calibration.threshold), matrix)

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it."""
        return super().to_json() | {"threshold": self.calibration.threshold}

"""The place in a model's attention where word alignments are read, the links that are read there, and their calibrated
probabilities."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..config.choices.inspection import PROBABLE, SITES
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
        extraction: which words are linked, one of `config.choices.inspection.EXTRACTIONS`.
        site: the attention that is read, one of `aligned_sites()`.
        chosen_on: the name of the set (or another reason) that chose it; empty where none has.
        calibration: the probabilities of links in the layer, if they are known.
        likely: whether the links are all above the calibration's threshold, in place of the extraction's.
    """

    layer: int
    head: int | str
    side: str
    extraction: str = "target"
    site: str = "cross"
    chosen_on: str = ""
    calibration: Calibration | None = None
    likely: bool = False

    @classmethod
    def from_row(cls, row: "pd.Series[Any]", chosen_on: str = "") -> "AlignmentReadout":
        """Returns the readout that a row of the table of `HeadCounts` describes."""
        side, extraction, site = (str(row[name]) for name in ("side", "linked", "site"))
        return cls(int(row["layer"]), row["head"], side, extraction, site, chosen_on)

    @property
    def linked(self) -> str:
        """The way of linking: the extraction, or `PROBABLE`."""
        return PROBABLE if self.likely else self.extraction

    def calibrated(self, calibration: Calibration, aer: float) -> "AlignmentReadout":
        """Returns the readout with probabilities of its links; where the error rate of the calibration is below `aer`,
        its own on the same pairs from 0 to 1, with the links above the threshold."""
        return replace(self, calibration=calibration, likely=calibration.aer < aer)

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it."""
        place = {"layer": self.layer, "head": self.head, "side": self.side, "linked": self.linked, "site": self.site}
        chosen = {"chosen_on": self.chosen_on} if self.chosen_on else {}
        return place | chosen | ({"threshold": self.calibration.threshold} if self.calibration else {})

    def weights(self, record: Record) -> np.ndarray:
        """Returns the attention `(T, S)` that is read."""
        heads = record.attention[self.site][self.layer]
        return heads.mean(axis=0) if self.head == MEAN_HEAD else heads[int(self.head)]

    def links(self, record: Record) -> set[Link]:
        """Reads the word links of a record."""
        if self.likely:
            return set(self.link_probabilities(record))
        return as_links(extract_word_links(record, self.weights(record), self.side, self.extraction))

    def link_probabilities(self, record: Record) -> dict[Link, float]:
        """Reads the word links of a record with their probabilities, by the calibration."""
        assert self.calibration is not None
        matrix = self.calibration.matrix([record])
        links = as_links(matrix > self.calibration.threshold) if self.likely else self.links(record)
        return probabilities_of(links, matrix)

    def word_weights(self, record: Record) -> np.ndarray:
        """Returns the attention between words, `(target words, source words)`; words of one token have its weights."""
        return spread_links(*grouped_attention(record, self.weights(record), self.side))


def extract_word_links(record: Record, weights: np.ndarray, side: str, extraction: str) -> np.ndarray:
    """Returns the links of words, bool `(..., target words, source words)`, read off attention `(..., T, S)`."""
    matrix, source, target = grouped_attention(record, weights, side)
    return spread_links(extract_links(matrix, extraction), source, target)

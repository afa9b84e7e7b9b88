"""A readout: the rule by which word links are read off a model's attention.

It consists of site, layer, head, label side and extraction method. It may also have a calibration, which gives links
probabilities.
"""

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

__all__ = ["AlignmentReadout"]

MEAN_HEAD = "mean"
"""The name of the mean of a layer's heads in tables and readouts."""


def describe_readout(layer: int, head: int | str, side: str, extraction: str) -> str:
    """Returns a description of a readout for messages, such as `layer 1, head mean, output side, target links`."""
    heads_and_side = "all heads on both sides" if extraction == PROBABLE else f"head {head}, {side} side"
    return f"layer {layer}, {heads_and_side}, {extraction} links"


def aligned_sites() -> list[str]:
    """Returns the names of the sites from which links can be read."""
    return [name for name, site in SITES.items() if site.aligns]


@dataclass(frozen=True)
class AlignmentReadout:
    """The rule by which word links are read off a model's attention.

    Args:
        layer: the layer, from 0.
        head: the head, from 0; or `mean` for the mean of the layer's heads.
        side: the target tokens that label the rows, `output` or `input`; see `Record.plot`.
        extraction: the extraction method, one of `config.choices.inspection.EXTRACTIONS`.
        site: the site of the attention: `cross`, `norms` or `gradients`.
        chosen_on: the name of the set on which the readout was chosen, or another reason for it; empty if unknown.
        calibration: the calibrated probabilities of links in the layer; None if there are none.
        likely: if True, all word pairs above the calibration's threshold are linked, and `extraction` is ignored. Needs
            a calibration.
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
        """Returns the readout of a row of the table of `alignment.head_scores.HeadCounts`."""
        side, extraction, site = (str(row[name]) for name in ("side", "linked", "site"))
        return cls(int(row["layer"]), row["head"], side, extraction, site, chosen_on)

    @property
    def linked(self) -> str:
        """The extraction method; or `PROBABLE` if `likely` is True."""
        return PROBABLE if self.likely else self.extraction

    def calibrated(self, calibration: Calibration, aer: float) -> "AlignmentReadout":
        """Returns a copy with a calibration. `likely` is True if the calibration's error rate is below the readout's.

        Args:
            calibration: the calibration of the readout's layer.
            aer: the alignment error rate of the readout on the same pairs, from 0 to 1.
        """
        return replace(self, calibration=calibration, likely=calibration.aer < aer)

    def to_json(self) -> dict[str, Any]:
        """Returns the entries of `metrics.json` about the readout."""
        entries: dict[str, Any] = {
            "layer": self.layer,
            "head": self.head,
            "side": self.side,
            "linked": self.linked,
            "site": self.site,
        }
        if self.chosen_on:
            entries["chosen_on"] = self.chosen_on
        if self.calibration:
            entries["threshold"] = self.calibration.threshold
        return entries

    def weights(self, record: Record) -> np.ndarray:
        """Returns the attention of the readout's site, layer and head in a record, `(T, S)`."""
        heads = record.attention[self.site][self.layer]
        return heads.mean(axis=0) if self.head == MEAN_HEAD else heads[int(self.head)]

    def links(self, record: Record) -> set[Link]:
        """Returns the links (source word, target word) that the readout reads off a record."""
        if self.likely:
            return set(self.link_probabilities(record))
        return as_links(extract_word_links(record, self.weights(record), self.side, self.extraction))

    def link_probabilities(self, record: Record) -> dict[Link, float]:
        """Returns a dict from the links of a record to their probabilities. The readout must have a calibration."""
        assert self.calibration is not None
        matrix = self.calibration.matrix([record])
        links = as_links(matrix > self.calibration.threshold) if self.likely else self.links(record)
        return probabilities_of(links, matrix)

    def word_weights(self, record: Record) -> np.ndarray:
        """Returns the attention between the words of a record, `(target words, source words)`.

        Words that share a token have the same weights.
        """
        return spread_links(*grouped_attention(record, self.weights(record), self.side))


def extract_word_links(record: Record, weights: np.ndarray, side: str, extraction: str) -> np.ndarray:
    """Extracts word links from attention between tokens.

    Args:
        record: the sentence pair.
        weights: attention of the record, `(..., T, S)`.
        side: the label side, see `alignment.word_matrix.row_words`.
        extraction: the extraction method, a key of `alignment.links.EXTRACTORS`.

    Returns:
        bool `(..., target words, source words)`: True for a link.
    """
    matrix, source, target = grouped_attention(record, weights, side)
    return spread_links(extract_links(matrix, extraction), source, target)

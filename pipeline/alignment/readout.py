"""The place in a model's attention where word alignments are read, and the links that are read there."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from ..config.names import LABEL_SIDES, SITES
from ..inspection.record import Record
from ..text.pharaoh import Link
from .links import as_links, extract_links
from .word_matrix import heads_and_mean, row_words, word_counts, word_matrix

MEAN_HEAD = "mean"
"""How the tables name the average of a layer's heads."""


def aligned_sites() -> list[str]:
    """Returns the attention sites from which alignments can be read."""
    return [name for name, site in SITES.items() if site.aligns]


@dataclass(frozen=True)
class AlignmentReadout:
    """Where alignments are read, and how.

    Args:
        layer: from 0.
        head: from 0, or `mean` for the average of the layer's heads.
        side: the target tokens that the rows align, `output` or `input`; see `row_words`.
        extraction: which words are linked, one of `config.names.EXTRACTIONS`.
        site: the attention that is read, one of `aligned_sites()`.
    """

    layer: int
    head: int | str
    side: str
    extraction: str = "target"
    site: str = "cross"

    @classmethod
    def from_row(cls, row: "pd.Series[Any]", **others: Any) -> Self:
        """Returns the readout that a row of `score_heads` describes."""
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
        n_source, n_target = word_counts(record)
        rows = row_words(record.target_words, self.side)
        matrix = word_matrix(self.weights(record), record.source_words, rows, n_source, n_target)
        return as_links(extract_links(matrix, self.extraction))


@dataclass(frozen=True)
class ChosenReadout(AlignmentReadout):
    """A readout, and the name of the set (or another reason) by which it was chosen."""

    chosen_on: str = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """Returns the readout as `metrics.json` holds it."""
        return super().to_json() | {"chosen_on": self.chosen_on}


def all_readouts(record: Record) -> list[AlignmentReadout]:
    """Returns every readout of the cross-attention, ordered by side, then layer, then head; the mean over heads comes
    last in each layer."""
    layers, heads = record.attention["cross"].shape[:2]
    return [
        AlignmentReadout(layer, head, side)
        for side in LABEL_SIDES
        for layer in range(layers)
        for head in [*range(heads), MEAN_HEAD]
    ]


def links_of_heads(record: Record, side: str) -> np.ndarray:
    """Reads the links of every layer and head of the cross-attention, and of the mean of each layer's heads.

    Returns:
        bool `(layer, heads + 1, target words, source words)`, the mean last: the largest weight of each target word.
    """
    n_source, n_target = word_counts(record)
    rows = row_words(record.target_words, side)
    matrix = word_matrix(heads_and_mean(record), record.source_words, rows, n_source, n_target)
    return extract_links(matrix, "target")

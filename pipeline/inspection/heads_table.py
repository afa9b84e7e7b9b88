"""The measures of every layer and head over a set of sentences: the table that heads.csv holds."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from .measures import MEASURES, measure_site
from .record import Record


class HeadsMeter:
    """Averages measures over sentences with the same layers and heads.

    Each measure is averaged over all rows of all sentences, so that sentences count by their length. Layers and heads
    are not averaged.

    Args:
        site: any site that the records hold.
    """

    def __init__(self, site: str = "cross") -> None:
        self.site = site
        self.rows = 0
        self.totals: dict[str, np.ndarray] = {}

    def add(self, record: Record, measures: Mapping[str, np.ndarray]) -> None:
        """Adds a sentence and its measures, which `measure_site` took."""
        length = record.attention[self.site].shape[2]
        self.totals = {name: self.totals.get(name, 0.0) + value * length for name, value in measures.items()}
        self.rows += length

    def table(self) -> pd.DataFrame:
        """Returns one row per layer and head: `site`, `layer`, `head` and `MEASURES`; no row without sentences."""
        layers, heads = self.totals["entropy"].shape if self.totals else (0, 0)
        layer, head = np.indices((layers, heads)).reshape(2, -1)
        columns = {name: self.totals[name].reshape(-1) / self.rows if self.rows else np.zeros(0) for name in MEASURES}
        return pd.DataFrame({"site": self.site, "layer": layer, "head": head, **columns})


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """Measures records and returns the table of `HeadsMeter`."""
    meter = HeadsMeter(site)
    for record in records:
        meter.add(record, measure_site(record, site))
    return meter.table()

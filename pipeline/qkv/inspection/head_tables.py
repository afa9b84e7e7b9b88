"""The measures of every layer and head over a set of sentences: the tables that heads.csv and sentence_heads.csv hold.

Letters: N sentences, M measures, L layers, H heads.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from ..statistics.resampling import ratio, ratio_interval
from .measures import MEASURES, measure_site
from .record import Record


class HeadsMeter:
    """Averages measures over sentences with the same layers and heads.

    Each measure is averaged over all rows of all sentences, so that sentences count by their length; one with an empty
    side has no rows. Layers and heads, of any site that the records hold, are not averaged.
    """

    def __init__(self, site: str = "cross") -> None:
        self.site = site
        self._ids: list[int] = []
        self._lengths: list[int] = []
        self._measures: list[np.ndarray] = []  # (M, L, H) of each sentence

    def add(self, record: Record, measures: Mapping[str, np.ndarray]) -> None:
        """Adds a sentence and its measures, which `measure_site` took."""
        self._ids.append(record.id)
        self._lengths.append(0 if record.has_empty_side else record.attention[self.site].shape[2])
        self._measures.append(np.stack([measures[name] for name in MEASURES]))

    def table(self) -> pd.DataFrame:
        """Returns one row per layer and head: `site`, `layer`, `head` and `MEASURES`; no row without sentences."""
        table = self._places().assign(**dict(zip(MEASURES, ratio(*self._sums()), strict=True)))
        table.insert(0, "site", self.site)
        return table

    def table_with_intervals(self) -> pd.DataFrame:
        """Returns `table`, and for each measure the ends of its 95 % interval over sentences, `_low` and `_high`."""
        low, high = ratio_interval(*self._sums())
        ends = {f"{name}_{end}": x[i] for i, name in enumerate(MEASURES) for end, x in (("low", low), ("high", high))}
        return self.table().assign(**ends)

    def sentences(self) -> pd.DataFrame:
        """Returns one row per sentence, layer and head: `id`, `layer`, `head`, `rows`, the number of the target tokens
        over which it is averaged (0 if a side is empty), and `MEASURES`."""
        sentences = pd.DataFrame({"id": self._ids, "rows": self._lengths}, dtype=int)
        rows = sentences.merge(self._places(), how="cross")[["id", "layer", "head", "rows"]]
        columns = np.moveaxis(self._of_sentences(), 1, 0).reshape(len(MEASURES), -1)
        return rows.assign(**dict(zip(MEASURES, columns, strict=True)))

    def _places(self) -> pd.DataFrame:
        layers, heads = self._measures[0].shape[1:] if self._measures else (0, 0)
        return pd.DataFrame(np.indices((layers, heads)).reshape(2, -1).T, columns=["layer", "head"])

    def _of_sentences(self) -> np.ndarray:
        """Returns the measures `(N, M, L * H)`."""
        return np.array(self._measures).reshape(len(self._ids), len(MEASURES), len(self._places()))

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array(self._lengths, float)[:, None, None]
        sums = np.where(lengths > 0, self._of_sentences(), 0.0) * lengths
        return sums, np.broadcast_to(lengths, sums.shape)


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """Measures records and returns the table of `HeadsMeter`."""
    meter = HeadsMeter(site)
    for record in records:
        meter.add(record, measure_site(record, site))
    return meter.table()


def add_types(heads: pd.DataFrame, types: pd.DataFrame) -> pd.DataFrame:
    """Adds to a table with columns `site`, `layer` and `head` three more of the table of `HeadTypesMeter`: `type`,
    `type_share`, `type_p`; empty where a head has no type."""
    place = ["site", "layer", "head"]
    named = types[types["named"].astype(bool)].set_index(place)[["type", "share", "p"]]
    table = heads.join(named.rename(columns={"share": "type_share", "p": "type_p"}), on=place)
    return table.assign(type=table["type"].fillna(""))

"""The measures of every layer and head over a set of sentences: the tables that heads.csv and sentence_heads.csv hold.

Letters: N sentences, M measures, L layers, H heads.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from ..statistics.resampling import ratio, ratio_interval
from .head_types import Place, TypedHead
from .measures import MEASURES, measure_site
from .record import Record


class HeadsMeter:
    """Averages measures over sentences with the same layers and heads.

    Each measure is averaged over all rows of all sentences, so that sentences count by their length; one with an empty
    side has no rows. Layers and heads are not averaged.

    Args:
        site: any site that the records hold.
    """

    def __init__(self, site: str = "cross") -> None:
        self.site = site
        self.ids: list[int] = []
        self.lengths: list[int] = []
        self.measures: list[np.ndarray] = []  # (M, L, H) of each sentence

    def add(self, record: Record, measures: Mapping[str, np.ndarray]) -> None:
        """Adds a sentence and its measures, which `measure_site` took."""
        self.ids.append(record.id)
        self.lengths.append(0 if record.has_empty_side else record.attention[self.site].shape[2])
        self.measures.append(np.stack([measures[name] for name in MEASURES]))

    def table(self) -> pd.DataFrame:
        """Returns one row per layer and head: `site`, `layer`, `head` and `MEASURES`; no row without sentences."""
        return pd.DataFrame({"site": self.site, **self._places(), **self._columns(self._means())})

    def table_with_intervals(self) -> pd.DataFrame:
        """Returns `table`, and for each measure the ends of its 95 % interval over sentences, `_low` and `_high`."""
        table = self.table()
        if not self.ids:
            return table
        sums, lengths = self._sums()
        ends = dict(zip(("low", "high"), ratio_interval(sums, lengths), strict=True))
        columns = {end: self._columns(values) for end, values in ends.items()}
        return table.assign(**{f"{name}_{end}": columns[end][name] for name in MEASURES for end in ends})

    def sentences(self) -> pd.DataFrame:
        """Returns one row per sentence, layer and head: `id`, `layer`, `head`, `rows`, the number of the target tokens
        over which it is averaged (0 if a side is empty), and `MEASURES`."""
        places = self._places()
        count = len(places["layer"])
        of_heads = np.array(self.measures).reshape(len(self.ids), len(MEASURES), count)
        columns = dict(zip(MEASURES, np.moveaxis(of_heads, 1, 0).reshape(len(MEASURES), -1), strict=True))
        keys = {"id": np.repeat(np.array(self.ids, int), count)}
        keys |= {name: np.tile(place, len(self.ids)) for name, place in places.items()}
        return pd.DataFrame({**keys, "rows": np.repeat(np.array(self.lengths, int), count), **columns})

    def _places(self) -> dict[str, np.ndarray]:
        layers, heads = self.measures[0].shape[1:] if self.measures else (0, 0)
        layer, head = np.indices((layers, heads)).reshape(2, -1)
        return {"layer": layer, "head": head}

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array(self.lengths, float)[:, None, None, None]
        sums = np.where(lengths > 0, self.measures, 0.0) * lengths
        return sums, np.broadcast_to(lengths, sums.shape)

    def _means(self) -> np.ndarray:
        if not self.ids:
            return np.zeros((len(MEASURES), 0))
        return ratio(*self._sums())

    def _columns(self, values: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(MEASURES, values.reshape(len(MEASURES), -1), strict=True))


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """Measures records and returns the table of `HeadsMeter`."""
    meter = HeadsMeter(site)
    for record in records:
        meter.add(record, measure_site(record, site))
    return meter.table()


def add_types(heads: pd.DataFrame, named: Mapping[Place, TypedHead]) -> pd.DataFrame:
    """Returns a table with columns `site`, `layer` and `head` and three more: `type`, `type_share`, `type_p`; empty
    where a head has no type."""
    places = zip(heads["site"], heads["layer"], heads["head"], strict=True)
    types = [named.get(place, TypedHead("", math.nan, math.nan)) for place in places]
    kinds, shares, p_values = zip(*types, strict=True) if types else ((), (), ())
    return heads.assign(type=kinds, type_share=shares, type_p=p_values)

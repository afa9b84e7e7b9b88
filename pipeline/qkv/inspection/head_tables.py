"""Tables of the measures of all heads over a set of sentences: the contents of heads.csv and sentence_heads.csv.

Letters: N sentences, M measures, L layers, H heads.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from ..statistics.resampling import ratio, ratio_interval
from .measures import MEASURES, measure_site
from .record import Record


class HeadsMeter:
    """Averages the measures of each layer and head over sentences.

    Each measure is averaged over the attention rows of all sentences, so long sentences count more. A sentence with an
    empty side has no rows.

    Args:
        site: the site of attention; all records must hold it, with the same numbers of layers and heads.
    """

    def __init__(self, site: str = "cross") -> None:
        self.site = site
        self._ids: list[int] = []
        self._lengths: list[int] = []
        self._measures: list[np.ndarray] = []  # (M, L, H) of each sentence

    def add(self, record: Record, measures: Mapping[str, np.ndarray]) -> None:
        """Adds a sentence and its measures, the result of `measure_site`."""
        self._ids.append(record.id)
        self._lengths.append(0 if record.has_empty_side else record.attention[self.site].shape[2])
        self._measures.append(np.stack([measures[name] for name in MEASURES]))

    def table(self) -> pd.DataFrame:
        """Returns one row per layer and head, with the columns `site`, `layer`, `head` and `MEASURES`.

        The table has no rows if no sentence was added.
        """
        table = self._layers_and_heads().assign(**dict(zip(MEASURES, ratio(*self._sums()), strict=True)))
        table.insert(0, "site", self.site)
        return table

    def table_with_intervals(self) -> pd.DataFrame:
        """Returns `table` with two more columns for each measure, the ends of its 95 % interval over sentences.

        Their names are the measure's followed by `_low` and `_high`.
        """
        low, high = ratio_interval(*self._sums())
        ends = {}
        for i, name in enumerate(MEASURES):
            ends[f"{name}_low"] = low[i]
            ends[f"{name}_high"] = high[i]
        return self.table().assign(**ends)

    def sentences(self) -> pd.DataFrame:
        """Returns one row per sentence, layer and head.

        The columns are `id` (of the sentence), `layer`, `head`, `rows` (the number of attention rows; 0 if a side is
        empty) and `MEASURES`.
        """
        sentences = pd.DataFrame({"id": self._ids, "rows": self._lengths}, dtype=int)
        rows = sentences.merge(self._layers_and_heads(), how="cross")[["id", "layer", "head", "rows"]]
        columns = np.moveaxis(self._sentence_measures(), 1, 0).reshape(len(MEASURES), -1)
        return rows.assign(**dict(zip(MEASURES, columns, strict=True)))

    def _layers_and_heads(self) -> pd.DataFrame:
        layers, heads = self._measures[0].shape[1:] if self._measures else (0, 0)
        return pd.DataFrame(np.indices((layers, heads)).reshape(2, -1).T, columns=["layer", "head"])

    def _sentence_measures(self) -> np.ndarray:
        """Returns the measures of all sentences, `(N, M, L * H)`."""
        return np.array(self._measures).reshape(len(self._ids), len(MEASURES), len(self._layers_and_heads()))

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sums of the measures over the rows of each sentence, and the numbers of rows; `(N, M, L * H)`."""
        lengths = np.array(self._lengths, float)[:, None, None]
        sums = np.where(lengths > 0, self._sentence_measures(), 0.0) * lengths
        return sums, np.broadcast_to(lengths, sums.shape)


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """Measures records and returns the table of `HeadsMeter` for one site."""
    meter = HeadsMeter(site)
    for record in records:
        meter.add(record, measure_site(record, site))
    return meter.table()


def add_types(heads: pd.DataFrame, types: pd.DataFrame) -> pd.DataFrame:
    """Returns a table of heads with the columns of their types.

    Args:
        heads: a table with the columns `site`, `layer` and `head`.
        types: the table of `HeadTypesMeter`.

    Returns:
        `heads` with three more columns: `type`, `type_share` and `type_p`. A head without a type has an empty `type`
        and NaN in the other two.
    """
    keys = ["site", "layer", "head"]
    named = types[types["named"].astype(bool)].set_index(keys)[["type", "share", "p"]]
    table = heads.join(named.rename(columns={"share": "type_share", "p": "type_p"}), on=keys)
    return table.assign(type=table["type"].fillna(""))

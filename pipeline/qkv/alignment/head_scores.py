"""Compares every layer and head of a model with gold alignments: a table of error rates, its best row, and the
scores of a chosen readout.

The side, layer and head that align best differ from model to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et
al. 2020), so they are chosen on a development set.

Letters: N sentences, W ways of linking (`EXTRACTORS`), L layers, H heads and last their mean, T target words, S source
words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ..config.choices.inspection import LABEL_SIDES, PROBABLE
from ..inspection.record import Record
from ..statistics.logistic_regression import reliability_table
from ..statistics.resampling import ratio, ratio_interval
from ..text.corpora.word_links import GoldAlignment, Link
from .error_rate import (
    LINK_COUNTS,
    AlignmentScore,
    alignment_error_rate,
    count_links,
    diagonal_links,
    error_terms,
    random_links,
)
from .gold import GoldSet
from .link_probabilities import error_of_links
from .links import EXTRACTORS, WordLinks, as_links
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites
from .word_matrix import eos_argmax_counts, grouped_attention, heads_and_mean, row_words, spread_links

COLUMNS = ("site", "layer", "head", "side", "linked", "aer", "precision", "recall", "eos_share", "aer_low", "aer_high")


class HeadCounts:
    """Counts the links of every layer and head, and of the mean of each layer's heads, at every aligned site that the
    records hold, read on both sides and in every way.

    The EOS column is left out before the argmax; how often it held the largest weight is counted.

    Args:
        gold: the gold alignment of each sentence, links inside the sentences (see `check_ranges`).
        word_counts: (source words, target words) of each sentence.

    Attributes:
        counts: for each site and side a list of int32 `(W, L, H, 6)`, one for each sentence: links, sure, links in
            sure, links in possible, rows, and rows with their argmax on EOS.
    """

    def __init__(self, gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]) -> None:
        self._given = iter(zip(gold, word_counts, strict=True))
        self.counts: dict[tuple[str, str], list[np.ndarray]] = {}

    def add(self, record: Record) -> None:
        """Counts the next sentence, whose target was given: gold links belong to its words."""
        gold, word_counts = next(self._given)
        for site, side in product(aligned_sites(), LABEL_SIDES):
            if site in record.attention:
                count = _count_sentence(record, site, side, gold, word_counts)
                self.counts.setdefault((site, side), []).append(count)

    def table(self) -> pd.DataFrame:
        """Scores the counts, which are pooled over the sentences before they are divided.

        Returns:
            One row per site, side, way of linking, layer and head (an index, or `mean`), with the columns `COLUMNS`;
            `linked` is the way, shares are 0 to 1, `aer_low` and `aer_high` the 95 % interval of a bootstrap over
            sentences.
        """
        parts = [_make_table(site, side, np.stack(counts)) for (site, side), counts in self.counts.items()]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))

    def of_sentences(self, readout: AlignmentReadout) -> pd.DataFrame:
        """Returns the counts of each sentence for each layer and head, at the site, side and way of a readout: a row
        for each `id`, `layer` and `head`, with `LINK_COUNTS`."""
        way = list(EXTRACTORS).index(readout.extraction)
        found = np.stack([count[way] for count in self.counts[readout.site, readout.side]])
        sentence, layer, head = np.indices(found.shape[:3]).reshape(3, -1)
        names = np.array([*map(str, range(found.shape[2] - 1)), MEAN_HEAD])
        columns = dict(zip(LINK_COUNTS, found[..., :4].reshape(-1, 4).T, strict=True))
        return pd.DataFrame({"id": sentence, "layer": layer, "head": names[head], **columns})


def best_row(table: pd.DataFrame) -> pd.Series:
    """Returns the row of a table of `HeadCounts` with the lowest error rate. Choose on one set, report on another."""
    return table.iloc[int(np.nanargmin(table["aer"].to_numpy(float)))]


def _count_sentence(record: Record, site: str, side: str, gold: GoldAlignment, words: tuple[int, int]) -> np.ndarray:
    weights = heads_and_mean(record, site)
    matrix, source, target = grouped_attention(record, weights, side, words)
    read = WordLinks(matrix)
    in_every_way = np.stack([extract(read) for extract in EXTRACTORS.values()])  # (W, L, H, T, S)
    links = spread_links(in_every_way, source, target)
    sure, possible = (_as_matrix(one, *words) for one in (gold.sure, gold.possible))
    counted = np.stack([np.ones_like(sure), sure, possible]).reshape(3, sure.size).T.astype(np.float32)
    linked, in_sure, in_possible = np.moveaxis(links.reshape(*links.shape[:3], sure.size) @ counted, -1, 0)
    on_eos, rows = eos_argmax_counts(weights, record.source_words, row_words(record.target_words, side))
    columns = (linked, sure.sum(), in_sure, in_possible, rows, on_eos)
    return np.stack(np.broadcast_arrays(*columns), axis=-1).astype(np.int32)


def _as_matrix(links: Iterable[Link], n_source: int, n_target: int) -> np.ndarray:
    matrix = np.zeros((n_target, n_source), bool)
    for i, j in links:
        matrix[j, i] = True
    return matrix


def _make_table(site: str, side: str, counts: np.ndarray) -> pd.DataFrame:
    """Returns the rows of one site and side, from counts `(N, W, L, H, 6)`."""
    sums = counts.sum(axis=0)
    _, layers, heads, _ = sums.shape
    names = [list(EXTRACTORS), range(layers), [*range(heads - 1), MEAN_HEAD]]
    places = pd.MultiIndex.from_product(names, names=["linked", "layer", "head"])
    low, high = ratio_interval(*error_terms(counts[..., :4]))
    columns = AlignmentScore.of(sums[..., :4])._asdict()
    columns |= {"eos_share": ratio(counts[..., 5], counts[..., 4]), "aer_low": low, "aer_high": high}
    table = pd.DataFrame({name: column.ravel() for name, column in columns.items()}, places).reset_index()
    return table.assign(site=site, side=side)[list(COLUMNS)]


@dataclass(frozen=True)
class ReadoutScores:
    """The chosen readout, and its scores on the set's gold alignments.

    Args:
        readout: where links are read; None without gold alignments to choose by, or without cross-attention.
        table: every readout's scores on the set; None if the set has no gold alignments.
        sentences: the counts of each sentence behind them, for the heads of the chosen readout's site, side and way.
        metrics: the chosen readout's scores on the set; None if the set has no gold alignments.
        reliability: the probabilities of links compared with the set's gold alignments; None without either.
    """

    readout: AlignmentReadout | None = None
    table: pd.DataFrame | None = None
    sentences: pd.DataFrame | None = None
    metrics: dict[str, Any] | None = None
    reliability: pd.DataFrame | None = None


class GoldScores:
    """Scores the readouts of a model on a set with gold alignments, sentence by sentence.

    Args:
        gold_set: the set.
        readout: the readout that was chosen on another set; None to choose it on this one, which is optimistic. Its
            probabilities, if it has some, are compared with the gold links, and the links above their threshold are
            one more way of linking.
    """

    def __init__(self, gold_set: GoldSet, readout: AlignmentReadout | None = None) -> None:
        self._gold_set = gold_set
        self._readout = readout
        self._heads = HeadCounts(gold_set.gold, gold_set.word_counts)
        self._probable: list[np.ndarray] = []  # LINK_COUNTS of each sentence
        self._predicted: list[float] = []
        self._right: list[bool] = []

    def add(self, record: Record) -> None:
        """Adds the next pair of the set, with a given target."""
        self._heads.add(record)
        if self._readout is not None and (calibration := self._readout.calibration):
            gold = self._gold_set.gold[len(self._probable)]
            matrix = calibration.matrix([record])
            self._probable.append(count_links(as_links(matrix > calibration.threshold), gold))
            words = np.argwhere(matrix > 0)
            self._predicted.extend(matrix[tuple(words.T)])
            self._right.extend((int(i), int(j)) in gold.possible for j, i in words)

    def scores(self, chosen_on: str = "") -> ReadoutScores:
        """Returns the scores; none without cross-attention, or if no readout has an error rate to choose by.

        Args:
            chosen_on: the name of this set, where the readout is chosen on it.
        """
        table = self._heads.table()
        readout = self._readout
        if readout is None:
            if table["aer"].isna().all():
                return ReadoutScores()
            readout = AlignmentReadout.from_row(best_row(table), chosen_on)
        sentences = self._heads.of_sentences(readout)
        if readout.calibration is None:
            return ReadoutScores(readout, table, sentences, alignment_metrics(table, readout, self._gold_set))
        counts = np.array(self._probable)
        low, high = ratio_interval(*error_terms(counts[:, None]))
        row = {
            **readout.to_json(),
            "linked": PROBABLE,
            **AlignmentScore.of(counts.sum(axis=0))._asdict(),
            "eos_share": _rows_of(table, readout)["eos_share"][readout.extraction],
            "aer_low": float(low[0]),
            "aer_high": float(high[0]),
        }
        table = pd.concat([table, pd.DataFrame([row], columns=table.columns)], ignore_index=True)
        reliability = reliability_table(np.array(self._predicted), np.array(self._right, bool))
        error = error_of_links(reliability)
        metrics = alignment_metrics(table, readout, self._gold_set)
        metrics["expected_calibration_error"] = None if math.isnan(error) else 100 * error
        if readout.likely:
            places = {"id": range(len(counts)), "layer": readout.layer, "head": readout.head}
            sentences = pd.DataFrame(places | dict(zip(LINK_COUNTS, counts.T, strict=True)))
        return ReadoutScores(readout, table, sentences, metrics, pd.DataFrame(reliability))


def _rows_of(table: pd.DataFrame, readout: AlignmentReadout) -> pd.DataFrame:
    keys = ["site", "layer", "head", "side"]
    return table[(table[keys] == [getattr(readout, key) for key in keys]).all(axis=1)].set_index("linked")


def alignment_metrics(table: pd.DataFrame, readout: AlignmentReadout, gold_set: GoldSet) -> dict[str, Any]:
    """Returns a readout's scores on a set, in percent, beside the scores of the diagonal, of random links and of the
    set's own best readout."""
    rows = _rows_of(table, readout)
    generator = np.random.default_rng(0)
    diagonal = [diagonal_links(*counts) for counts in gold_set.word_counts]
    at_random = [random_links(*counts, generator) for counts in gold_set.word_counts]
    best = best_row(table)
    scores = ("aer", "precision", "recall", "eos_share", "aer_low", "aer_high")
    return {
        **{name: 100 * float(rows[name][readout.linked]) for name in scores},
        **readout.to_json(),
        "aer_by_links": {way: 100 * float(aer) for way, aer in rows["aer"].items()},
        "diagonal_aer": 100 * float(alignment_error_rate(diagonal, gold_set.gold).aer),
        "random_aer": 100 * float(alignment_error_rate(at_random, gold_set.gold).aer),
        "best_on_this_set": {"aer": 100 * float(best["aer"]), **AlignmentReadout.from_row(best).to_json()},
        "sentences": len(gold_set.corpus),
        "gold_links_out_of_range": gold_set.dropped_links,
        "words": gold_set.units._asdict(),
    }

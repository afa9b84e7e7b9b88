"""The error rates of all readouts of a model against gold alignments, and the scores of one readout.

Label side, layer and head that align best differ from model to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et
al. 2020), so they are chosen on a development set.

Letters: N sentences, W extraction methods in the order of `EXTRACTORS`, L layers, H heads and last their mean, T target
words, S source words.
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
from .link_probabilities import calibration_error_of_links
from .links import EXTRACTORS, WordLinks, as_links
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites
from .word_matrix import eos_argmax_counts, grouped_attention, heads_and_mean, row_words, spread_links

ERROR_RATE_COLUMNS = (
    "site",
    "layer",
    "head",
    "side",
    "linked",
    "aer",
    "precision",
    "recall",
    "eos_share",
    "aer_low",
    "aer_high",
)
"""The columns of `head_alignment.csv`, see `HeadCounts.table`."""


class HeadCounts:
    """Counts the right and wrong links of all readouts.

    A readout is a combination of site, layer, head, label side and extraction method. The sites are those that the
    records have. The mean of a layer's heads counts as a head.

    Weights on EOS are left out before links are extracted. Rows whose largest weight is on EOS are counted.

    Args:
        gold: the gold alignment of each sentence. All links are inside the sentences, see
            `alignment.error_rate.check_ranges`.
        word_counts: the numbers of source words and of target words of each sentence.

    Attributes:
        counts: by (site, side) a list with an array int32 `(W, L, H, 6)` for each sentence. The last axis holds the
            four `alignment.error_rate.LINK_COUNTS`, the number of rows, and the number of rows with their largest
            weight on EOS.
    """

    def __init__(self, gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]) -> None:
        self._sentences = iter(zip(gold, word_counts, strict=True))
        self.counts: dict[tuple[str, str], list[np.ndarray]] = {}

    def add(self, record: Record) -> None:
        """Counts the links of the next sentence. The target of the record must be the reference."""
        gold, word_counts = next(self._sentences)
        for site, side in product(aligned_sites(), LABEL_SIDES):
            if site in record.attention:
                count = _count_sentence(record, site, side, gold, word_counts)
                self.counts.setdefault((site, side), []).append(count)

    def table(self) -> pd.DataFrame:
        """Computes the scores of all readouts. Counts are summed over the sentences before they are divided.

        Returns:
            A row for each readout, with the columns `ERROR_RATE_COLUMNS`. `head` is an index or `mean`, and `linked` is
            the extraction method. Error rate, precision, recall and `eos_share` are from 0 to 1. `eos_share` is the
            share of rows with their largest weight on EOS. `aer_low` and `aer_high` are the ends of the 95 % bootstrap
            interval over sentences. The table is empty if no record has cross-attention.
        """
        parts = [_make_table(site, side, np.stack(counts)) for (site, side), counts in self.counts.items()]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(ERROR_RATE_COLUMNS))

    def of_sentences(self, readout: AlignmentReadout) -> pd.DataFrame:
        """Returns the link counts of each sentence for all layers and heads, with a readout's site, side and method.

        Returns:
            A row for each sentence, layer and head, with the columns `id`, `layer` and `head` and the four columns
            `LINK_COUNTS`. The id is the index of the sentence, from 0.
        """
        method = list(EXTRACTORS).index(readout.extraction)
        counts = np.stack([count[method] for count in self.counts[readout.site, readout.side]])
        sentence, layer, head = np.indices(counts.shape[:3]).reshape(3, -1)
        names = np.array([*map(str, range(counts.shape[2] - 1)), MEAN_HEAD])
        columns = dict(zip(LINK_COUNTS, counts[..., :4].reshape(-1, 4).T, strict=True))
        return pd.DataFrame({"id": sentence, "layer": layer, "head": names[head], **columns})


def best_row(table: pd.DataFrame) -> pd.Series:
    """Returns the row with the lowest error rate of a table of `HeadCounts`.

    Choose a readout on one set, and report its scores on another.

    Raises:
        ValueError: no row has an error rate.
    """
    return table.iloc[int(np.nanargmin(table["aer"].to_numpy(float)))]


def _count_sentence(record: Record, site: str, side: str, gold: GoldAlignment, words: tuple[int, int]) -> np.ndarray:
    """Returns the counts of a sentence at one site and side, int32 `(W, L, H, 6)`; see `HeadCounts.counts`."""
    weights = heads_and_mean(record, site)
    matrix, source, target = grouped_attention(record, weights, side, words)
    group_links = WordLinks(matrix)
    by_method = np.stack([extract(group_links) for extract in EXTRACTORS.values()])  # (W, L, H, groups, groups)
    links = spread_links(by_method, source, target)  # (W, L, H, T, S)
    sure = _as_matrix(gold.sure, *words)
    possible = _as_matrix(gold.possible, *words)
    counted = np.stack([np.ones_like(sure), sure, possible]).reshape(3, sure.size).T.astype(np.float32)
    linked, in_sure, in_possible = np.moveaxis(links.reshape(*links.shape[:3], sure.size) @ counted, -1, 0)
    on_eos, rows = eos_argmax_counts(weights, record.source_words, row_words(record.target_words, side))
    columns = (linked, sure.sum(), in_sure, in_possible, rows, on_eos)
    return np.stack(np.broadcast_arrays(*columns), axis=-1).astype(np.int32)


def _as_matrix(links: Iterable[Link], n_source: int, n_target: int) -> np.ndarray:
    """Converts links (source word, target word) to a bool matrix `(T, S)`, True for a link."""
    matrix = np.zeros((n_target, n_source), bool)
    for i, j in links:
        matrix[j, i] = True
    return matrix


def _make_table(site: str, side: str, counts: np.ndarray) -> pd.DataFrame:
    """Returns the rows of `HeadCounts.table` of one site and side, from counts `(N, W, L, H, 6)`."""
    sums = counts.sum(axis=0)
    _, layers, heads, _ = sums.shape
    names = [list(EXTRACTORS), range(layers), [*range(heads - 1), MEAN_HEAD]]
    index = pd.MultiIndex.from_product(names, names=["linked", "layer", "head"])
    low, high = ratio_interval(*error_terms(counts[..., :4]))
    columns = AlignmentScore.of(sums[..., :4])._asdict()
    columns |= {"eos_share": ratio(counts[..., 5], counts[..., 4]), "aer_low": low, "aer_high": high}
    table = pd.DataFrame({name: column.ravel() for name, column in columns.items()}, index).reset_index()
    return table.assign(site=site, side=side)[list(ERROR_RATE_COLUMNS)]


@dataclass(frozen=True)
class ReadoutScores:
    """A model's readout, and its scores on a set.

    Args:
        readout: the readout; None if there are no gold alignments to choose it on, or if the model has no
            cross-attention.
        table: the scores of all readouts on the set, see `HeadCounts.table`; None if the set has no gold alignments.
        sentences: the counts of each sentence, see `HeadCounts.of_sentences`; None if the set has no gold alignments.
        metrics: the scores of the readout, see `alignment_metrics`; None if the set has no gold alignments.
        reliability: the probabilities of links compared with the gold alignments, a row for each bin; None if the
            readout has no calibration, or the set has no gold alignments.
    """

    readout: AlignmentReadout | None = None
    table: pd.DataFrame | None = None
    sentences: pd.DataFrame | None = None
    metrics: dict[str, Any] | None = None
    reliability: pd.DataFrame | None = None


class GoldScores:
    """Scores the readouts of a model on a set with gold alignments. The sentences are added one by one.

    Args:
        gold_set: the set.
        readout: the readout that was chosen on another set; None to choose it on this set, which gives optimistic
            scores. If it has a calibration, its probabilities are compared with the gold links, and the links above the
            threshold are scored as one more extraction method.
    """

    def __init__(self, gold_set: GoldSet, readout: AlignmentReadout | None = None) -> None:
        self._gold_set = gold_set
        self._readout = readout
        self._heads = HeadCounts(gold_set.gold, gold_set.word_counts)
        self._probable: list[np.ndarray] = []  # LINK_COUNTS of each sentence
        self._predicted: list[float] = []
        self._is_right: list[bool] = []

    def add(self, record: Record) -> None:
        """Adds the next sentence pair of the set. The target of the record must be the reference."""
        self._heads.add(record)
        if self._readout is not None and (calibration := self._readout.calibration):
            gold = self._gold_set.gold[len(self._probable)]
            matrix = calibration.matrix([record])
            self._probable.append(count_links(as_links(matrix > calibration.threshold), gold))
            words = np.argwhere(matrix > 0)
            self._predicted.extend(matrix[tuple(words.T)])
            self._is_right.extend((int(i), int(j)) in gold.possible for j, i in words)

    def scores(self, chosen_on: str = "") -> ReadoutScores:
        """Returns the scores on the sentences so far.

        All fields of the result are None if the readout must be chosen on this set, but no readout has an error rate,
        for example because the model has no cross-attention.

        Args:
            chosen_on: the `chosen_on` of a readout that is chosen on this set.
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
        reliability = reliability_table(np.array(self._predicted), np.array(self._is_right, bool))
        error = calibration_error_of_links(reliability)
        metrics = alignment_metrics(table, readout, self._gold_set)
        metrics["expected_calibration_error"] = None if math.isnan(error) else 100 * error
        if readout.likely:
            keys = {"id": range(len(counts)), "layer": readout.layer, "head": readout.head}
            sentences = pd.DataFrame(keys | dict(zip(LINK_COUNTS, counts.T, strict=True)))
        return ReadoutScores(readout, table, sentences, metrics, pd.DataFrame(reliability))


def _rows_of(table: pd.DataFrame, readout: AlignmentReadout) -> pd.DataFrame:
    """Returns the rows of a readout's site, layer, head and side, indexed by the extraction method."""
    keys = ["site", "layer", "head", "side"]
    return table[(table[keys] == [getattr(readout, key) for key in keys]).all(axis=1)].set_index("linked")


def alignment_metrics(table: pd.DataFrame, readout: AlignmentReadout, gold_set: GoldSet) -> dict[str, Any]:
    """Returns the entry `alignment` of `metrics.json`: the scores of a readout on a set, and scores for comparison.

    Args:
        table: the scores of all readouts on the set, see `HeadCounts.table`.
        readout: the readout.
        gold_set: the set.

    Returns:
        The scores in percent, the readout, the error rate of each extraction method (`aer_by_links`), the error rates
        of the two baselines, and the readout that is best on this set with its error rate.
    """
    rows = _rows_of(table, readout)
    generator = np.random.default_rng(0)
    diagonal = [diagonal_links(*counts) for counts in gold_set.word_counts]
    at_random = [random_links(*counts, generator) for counts in gold_set.word_counts]
    best = best_row(table)
    scores = ("aer", "precision", "recall", "eos_share", "aer_low", "aer_high")
    return {
        **{name: 100 * float(rows[name][readout.linked]) for name in scores},
        **readout.to_json(),
        "aer_by_links": {method: 100 * float(aer) for method, aer in rows["aer"].items()},
        "diagonal_aer": 100 * float(alignment_error_rate(diagonal, gold_set.gold).aer),
        "random_aer": 100 * float(alignment_error_rate(at_random, gold_set.gold).aer),
        "best_on_this_set": {"aer": 100 * float(best["aer"]), **AlignmentReadout.from_row(best).to_json()},
        "sentences": len(gold_set.corpus),
        "gold_links_out_of_range": gold_set.dropped_links,
        "words": gold_set.units._asdict(),
    }

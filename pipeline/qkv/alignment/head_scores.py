"""Compares every layer and head of a model with gold alignments: a table of error rates, and its best row.

The side, layer and head that align best differ from model to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et
al. 2020), so they are chosen on a development set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..config.names.inspection import LABEL_SIDES, PROBABLE
from ..inspection.record import Record
from ..statistics.logistic_regression import reliability_table
from ..statistics.resampling import ratio_interval
from ..text.corpora.word_links import GoldAlignment, Link
from .error_rate import (
    LINK_COUNTS,
    AlignmentCounts,
    alignment_error_rate,
    diagonal_links,
    error_terms,
    random_links,
)
from .gold import GoldSet
from .link_probabilities import error_of_links
from .links import as_links, extract_in_every_way
from .readout import MEAN_HEAD, AlignmentReadout, ChosenReadout, ProbableReadout, aligned_sites
from .word_matrix import eos_argmax_counts, group_words, heads_and_mean, row_words, spread_links, word_matrix

COLUMNS = ("site", "layer", "head", "side", "linked", "aer", "precision", "recall", "eos_share", "aer_low", "aer_high")
HeadCounts = dict[tuple[str, str, str], np.ndarray]
"""What `count_heads` returns."""


def score_heads(
    records: Iterable[Record], gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Counts the links of `count_heads` and returns the table of `table_of_counts`."""
    return table_of_counts(count_heads(records, gold, word_counts))


def count_heads(
    records: Iterable[Record], gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]
) -> HeadCounts:
    """Counts the links of every layer and head, and of the mean of each layer's heads, at every aligned site that the
    records hold, read on both sides and with every extraction.

    The EOS column is left out before the argmax; how often it held the largest weight is counted.

    Args:
        records: sentences whose target text was given (mode `forced`).
        gold: their gold alignments, in the same order, links inside the sentences (see `check_ranges`).
        word_counts: their (source words, target words), in the same order.

    Returns:
        For each site, side and extraction int32 `(N, layers, heads + 1, 6)`, for each of N sentences and last the mean
        of the heads: links, sure, links in sure, links in possible, rows, and rows with their argmax on EOS.

    Raises:
        ValueError: the three differ in length, a record was not forced, or a gold link is out of range.
    """
    counts: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for record, alignment, words in zip(records, gold, word_counts, strict=True):
        if record.mode != "forced":
            raise ValueError(
                f"sentence {record.id}: expected mode 'forced' to compare with gold links, found {record.mode!r}"
            )
        for site, side in product(aligned_sites(), LABEL_SIDES):
            if site not in record.attention:
                continue
            sentence = _count_sentence(record, site, side, alignment, words)
            for extraction, count in sentence.items():
                counts.setdefault((site, side, extraction), []).append(count.astype(np.int32))
    return {key: np.stack(sentences) for key, sentences in counts.items()}


def table_of_counts(counts: HeadCounts) -> pd.DataFrame:
    """Scores the counts of `count_heads`, which are pooled over the corpus before they are divided.

    Returns:
        One row per site, side, extraction, layer and head (an index, or `mean`), with the columns `COLUMNS`; `linked`
        is the extraction, shares are 0 to 1, `aer_low` and `aer_high` the 95 % interval of a bootstrap over sentences.
    """
    table = [row for key, sentences in counts.items() for row in _table_rows(*key, sentences)]
    return pd.DataFrame(table, columns=list(COLUMNS))


def sentence_counts_of(counts: HeadCounts, site: str, side: str, extraction: str) -> pd.DataFrame:
    """Returns what each sentence counts in the error rate of each layer and head at one site, read in one way: a row
    for each `id`, `layer` and `head`, with `links`, `sure`, `links_in_sure` and `links_in_possible`."""
    found = counts[site, side, extraction]
    sentence, layer, head = np.indices(found.shape[:3]).reshape(3, -1)
    names = np.array([*map(str, range(found.shape[2] - 1)), MEAN_HEAD])
    columns = dict(zip(LINK_COUNTS, found[..., :4].reshape(-1, 4).T, strict=True))
    return pd.DataFrame({"id": sentence, "layer": layer, "head": names[head], **columns})


def best_row(table: pd.DataFrame) -> pd.Series:
    """Returns the row of `score_heads` with the lowest error rate, the first of equals. Choose on one set, report on
    another.

    Raises:
        ValueError: no row has an error rate.
    """
    if table["aer"].isna().all():
        raise ValueError("no row has an alignment error rate: there were no links to compare")
    return table.iloc[int(np.nanargmin(table["aer"].to_numpy(float)))]


def _count_sentence(
    record: Record, site: str, side: str, gold: GoldAlignment, word_counts: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Returns for each extraction `(layer, head, 6)` counts: links, sure, links in sure, links in possible, rows, and
    rows with their argmax on EOS."""
    weights = heads_and_mean(record, site)
    source, target = map(group_words, (record.source_words, record.target_words), word_counts)
    words_of_rows = row_words(target.of_tokens, side)
    matrix = word_matrix(weights, source.of_tokens, words_of_rows, source.number, target.number)
    sure, possible = (_as_matrix(links, *word_counts) for links in (gold.sure, gold.possible))
    on_eos, rows = eos_argmax_counts(weights, source.of_tokens, words_of_rows)
    counts = {}
    for extraction, found in extract_in_every_way(matrix).items():
        links = spread_links(found, source, target)
        masks = (links, np.broadcast_to(sure, links.shape), links & sure, links & possible)
        link_counts = [mask.sum(axis=(-1, -2)) for mask in masks]
        counts[extraction] = np.stack([*link_counts, np.full(on_eos.shape, rows), on_eos], axis=-1).astype(np.int64)
    return counts


def _as_matrix(links: Iterable[Link], n_source: int, n_target: int) -> np.ndarray:
    matrix = np.zeros((n_target, n_source), bool)
    for i, j in links:
        if not (0 <= i < n_source and 0 <= j < n_target):
            raise ValueError(f"gold link {i}-{j} lies outside its {n_target} target words or its source; check_ranges")
        matrix[j, i] = True
    return matrix


def _table_rows(site: str, side: str, extraction: str, sentences: np.ndarray) -> Iterable[dict[str, object]]:
    counts = sentences.sum(axis=0)
    low, high = ratio_interval(*error_terms(sentences))
    layers, heads = counts.shape[:2]
    for layer, head in product(range(layers), range(heads)):
        *link_counts, rows, on_eos = (int(count) for count in counts[layer, head])
        score = AlignmentCounts(*link_counts).score()
        yield {
            "site": site,
            "layer": layer,
            "head": head if head < heads - 1 else MEAN_HEAD,
            "side": side,
            "linked": extraction,
            "aer": score.aer,
            "precision": score.precision,
            "recall": score.recall,
            "eos_share": on_eos / rows if rows else float("nan"),
            "aer_low": low[layer, head],
            "aer_high": high[layer, head],
        }


def head_table(records: Iterable[Record], gold_set: GoldSet) -> pd.DataFrame:
    """Scores every readout of the records, which must be the gold set's pairs read by `record_references`."""
    return score_heads(records, gold_set.gold, gold_set.word_counts)


def head_counts(records: Iterable[Record], gold_set: GoldSet) -> HeadCounts:
    """Counts the links of every readout, as `head_table`, sentence by sentence."""
    return count_heads(records, gold_set.gold, gold_set.word_counts)


def choose_readout(table: pd.DataFrame, chosen_on: str) -> ChosenReadout:
    """Returns the readout with the lowest error rate in the table of the set that `chosen_on` names."""
    return ChosenReadout.from_row(best_row(table), chosen_on=chosen_on)


def alignment_metrics(table: pd.DataFrame, readout: ChosenReadout, gold_set: GoldSet, seed: int = 0) -> dict[str, Any]:
    """Returns a readout's scores on a set, in percent, beside those of the diagonal, of random links and of the set's
    own best readout."""
    keys = ["site", "layer", "head", "side"]
    rows = table[(table[keys] == [getattr(readout, key) for key in keys]).all(axis=1)].set_index("linked")
    generator = np.random.default_rng(seed)
    diagonal = [diagonal_links(*counts) for counts in gold_set.word_counts]
    at_random = [random_links(*counts, generator) for counts in gold_set.word_counts]
    best = best_row(table)
    return {
        **{name: 100 * float(rows[name][readout.extraction]) for name in ("aer", "precision", "recall", "eos_share")},
        **{name: 100 * float(rows[name][readout.extraction]) for name in ("aer_low", "aer_high")},
        **readout.to_json(),
        "aer_by_links": {extraction: 100 * float(aer) for extraction, aer in rows["aer"].items()},
        "diagonal_aer": 100 * alignment_error_rate(diagonal, gold_set.gold).aer,
        "random_aer": 100 * alignment_error_rate(at_random, gold_set.gold).aer,
        "best_on_this_set": {"aer": 100 * float(best["aer"]), **AlignmentReadout.from_row(best).to_json()},
        "sentences": len(gold_set.corpus),
        "gold_links_out_of_range": gold_set.dropped_links,
        "words": gold_set.units._asdict(),
    }


class ProbableScores(NamedTuple):
    """The error rates of probable links on a set with gold links.

    Attributes:
        row: their row for the table of `score_heads`, without `eos_share`.
        sentences: what each sentence counts, as `sentence_counts_of`.
        reliability: the table of `reliability_table` over the word pairs with a weight.
        error: the expected calibration error of that table, see `error_of_links`; 0 to 1.
    """

    row: dict[str, Any]
    sentences: pd.DataFrame
    reliability: pd.DataFrame
    error: float


def score_probable(readout: ProbableReadout, records: Iterable[Record], gold_set: GoldSet) -> ProbableScores:
    """Scores the links above the threshold, and compares all probabilities with gold links.

    Args:
        readout: its calibration is of other pairs.
        records: those of the pairs of the set, with given targets.
        gold_set: the set.
    """
    calibration, counts = readout.calibration, []
    predicted: list[float] = []
    right: list[bool] = []
    for record, gold in zip(records, gold_set.gold, strict=True):
        matrix = calibration.probabilities.matrix([record])
        counts.append(AlignmentCounts.of(as_links(matrix > calibration.threshold), gold))
        words = np.argwhere(matrix > 0)
        predicted.extend(matrix[tuple(words.T)])
        right.extend((int(i), int(j)) in gold.possible for j, i in words)
    places = {"layer": readout.layer, "head": readout.head}
    names = dict(zip(LINK_COUNTS, ("links", "sure", "links_in_sure", "links_in_possible"), strict=True))
    sentences = pd.DataFrame(
        [
            {"id": number, **places, **{column: getattr(one, name) for column, name in names.items()}}
            for number, one in enumerate(counts)
        ]
    )
    low, high = ratio_interval(*(term[:, None] for term in error_terms(sentences[list(LINK_COUNTS)].to_numpy())))
    row = {"site": readout.site, **places, "side": readout.side, "linked": PROBABLE}
    row |= asdict(sum(counts, AlignmentCounts()).score()) | {"aer_low": float(low[0]), "aer_high": float(high[0])}
    table = reliability_table(np.array(predicted), np.array(right, bool))
    return ProbableScores(row, sentences, pd.DataFrame(table), error_of_links(table))

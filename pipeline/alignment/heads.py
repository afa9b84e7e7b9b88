"""Compares every layer and head of a model with gold alignments: a table of error rates, and its best row.

The side, layer and head that align best differ from model to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et
al. 2020), so they are chosen on a development set.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from ..config.names import EXTRACTIONS, LABEL_SIDES
from ..inspection.record import Record
from ..text.pharaoh import GoldAlignment, Link
from .error_rate import AlignmentCounts
from .links import extract_links
from .readout import MEAN_HEAD, aligned_sites
from .shared_tokens import group_words, spread_links
from .word_matrix import eos_argmax_counts, heads_and_mean, row_words, word_matrix

COLUMNS = ("site", "layer", "head", "side", "linked", "aer", "precision", "recall", "eos_share")


def score_heads(
    records: Iterable[Record], gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Scores every layer and head, and the mean of each layer's heads, at every aligned site that the records hold,
    read on both sides and with every extraction.

    Counts are pooled over the corpus before they are divided. The EOS column is left out before the argmax; `eos_share`
    says how often it held the largest weight.

    Args:
        records: sentences whose target text was given (mode `forced`).
        gold: their gold alignments, in the same order, links inside the sentences (see `check_ranges`).
        word_counts: their (source words, target words), in the same order.

    Returns:
        One row per site, side, extraction, layer and head (an index, or `mean`), with the columns `COLUMNS`; `linked`
        is the extraction, shares are 0 to 1.

    Raises:
        ValueError: the three differ in length, a record was not forced, or a gold link is out of range.
    """
    counts: dict[tuple[str, str, str], np.ndarray] = {}
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
                key = site, side, extraction
                counts[key] = counts.get(key, 0) + count
    table = [row for key, count in counts.items() for row in _table_rows(*key, count)]
    return pd.DataFrame(table, columns=list(COLUMNS))


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
    for extraction in EXTRACTIONS:
        links = spread_links(extract_links(matrix, extraction), source, target)
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


def _table_rows(site: str, side: str, extraction: str, counts: np.ndarray) -> Iterable[dict[str, object]]:
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
        }

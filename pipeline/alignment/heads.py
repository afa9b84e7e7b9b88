"""Word alignments read off attention: from one matrix to a table of every layer and head against a gold standard.

Row t of cross-attention was computed from input token t to predict output token t. Read on the *output* side it aligns
the word being predicted, on the *input* side the word just read. Which side, layer and head is best differs from model
to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et al. 2020), so they are chosen on a development set.

Shapes: T target tokens, S source tokens; `...` is any number of leading axes, as (layer, head).
"""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from ..inspection.record import SIDES, Record
from ..text.pharaoh import GoldAlignment, Link
from .error_rate import AlignmentCounts
from .links import LINKS, link_words
from .readout import (
    ALIGNED_SITES,
    MEAN_HEAD,
    _eos_argmax_counts,
    heads_and_mean,
    row_words,
    word_matrix,
)

_SHARES = ("aer", "precision", "recall", "eos_share")


def score_heads(
    records: Iterable[Record], gold: Sequence[GoldAlignment], word_counts: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Scores every layer and head, and each layer's mean over heads, of those of `ALIGNED_SITES` that the records hold,
    read on both sides and linking words in each way.

    Counts are pooled over the corpus before they are divided. The EOS column is left out before the argmax; `eos_share`
    says how often it held the largest weight.

    Args:
        records: sentences whose target text was given (mode `forced`).
        gold: their gold alignments, in the same order, links inside the sentences (see `check_ranges`).
        word_counts: their (source words, target words), in the same order.

    Returns:
        One row per site, side, way of `LINKS`, layer and head (an index, or `mean`), with the columns `site`, `layer`,
        `head`, `side`, `linked`, `aer`, `precision`, `recall`, `eos_share`, all shares 0 to 1.

    Raises:
        ValueError: the three differ in length, a record was not forced, or a gold link is out of range.
    """
    tallies: dict[tuple[str, str, str], np.ndarray] = {}
    for record, alignment, counts in zip(records, gold, word_counts, strict=True):
        if record.mode != "forced":
            raise ValueError(f"sentence {record.id}: gold links need mode 'forced'. Received: {record.mode!r}")
        for site, side in product(ALIGNED_SITES, SIDES):
            if site not in record.attention:
                continue
            weights, rows = heads_and_mean(record, site), row_words(record.target_words, side)
            for linked, tally in _tallies(weights, record.source_words, rows, alignment, counts).items():
                tallies[site, side, linked] = tallies.get((site, side, linked), 0) + tally
    table = [row for where, tally in tallies.items() for row in _table_rows(*where, tally)]
    return pd.DataFrame(table, columns=["site", "layer", "head", "side", "linked", *_SHARES])


def choose(table: pd.DataFrame) -> pd.Series:
    """The row of `score_heads` with the lowest error rate, the first of equals. Choose on one set, report on another.

    Raises:
        ValueError: no row has an error rate.
    """
    if table["aer"].isna().all():
        raise ValueError("no row has an alignment error rate: there were no links to compare")
    return table.iloc[int(np.nanargmin(table["aer"].to_numpy(float)))]


def _tallies(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    row_words: Sequence[int | None],
    gold: GoldAlignment,
    word_counts: tuple[int, int],
) -> dict[str, np.ndarray]:
    """For each way of `LINKS`, `(layer, head, 6)` counts: links, sure, links in sure, links in possible, rows, and rows
    with their argmax on EOS."""
    n_source, n_target = word_counts
    matrix = word_matrix(weights, source_words, row_words, n_source, n_target)
    sure, possible = (_as_matrix(links, n_source, n_target) for links in (gold.sure, gold.possible))
    hidden, rows = _eos_argmax_counts(weights, source_words, row_words)
    found = {}
    for linked in LINKS:
        links = link_words(matrix, linked)
        counts = (links, np.broadcast_to(sure, links.shape), links & sure, links & possible)
        tally = [count.sum(axis=(-1, -2)) for count in counts]
        found[linked] = np.stack([*tally, np.full(hidden.shape, rows), hidden], axis=-1).astype(np.int64)
    return found


def _as_matrix(links: Iterable[Link], n_source: int, n_target: int) -> np.ndarray:
    matrix = np.zeros((n_target, n_source), bool)
    for i, j in links:
        if not (0 <= i < n_source and 0 <= j < n_target):
            raise ValueError(f"gold link {i}-{j} lies outside its {n_target} target words or its source; check_ranges")
        matrix[j, i] = True
    return matrix


def _table_rows(site: str, side: str, linked: str, tally: np.ndarray) -> Iterable[dict[str, object]]:
    layers, heads = tally.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            *counts, rows, hidden = (int(count) for count in tally[layer, head])
            score = AlignmentCounts(*counts).score()
            yield {
                "site": site,
                "layer": layer,
                "head": head if head < heads - 1 else MEAN_HEAD,
                "side": side,
                "linked": linked,
                "aer": score.aer,
                "precision": score.precision,
                "recall": score.recall,
                "eos_share": hidden / rows if rows else float("nan"),
            }

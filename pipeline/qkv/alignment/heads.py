"""Compares every layer and head of a model with gold alignments: a table of error rates, and its best row.

The side, layer and head that align best differ from model to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et
al. 2020), so they are chosen on a development set.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from ..config.names.inspection import LABEL_SIDES
from ..inspection.record import Record
from ..statistics.resampling import ratio_interval
from ..text.corpora.word_links import GoldAlignment, Link
from .error_rate import AlignmentCounts
from .links import extract_in_every_way
from .readout import MEAN_HEAD, aligned_sites
from .shared_tokens import group_words, spread_links
from .word_matrix import eos_argmax_counts, heads_and_mean, row_words, word_matrix

COLUMNS = ("site", "layer", "head", "side", "linked", "aer", "precision", "recall", "eos_share", "aer_low", "aer_high")

LINK_COUNTS = ("links", "sure", "links_in_sure", "links_in_possible")

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


def error_terms(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numerators and denominators of error rates, for `ratio`: |A| + |S| - |A and S| - |A and P| and
    |A| + |S|.

    Args:
        counts: `(..., 4)` or more, as `LINK_COUNTS`.
    """
    links, sure, in_sure, in_possible = np.moveaxis(np.asarray(counts, np.float64)[..., :4], -1, 0)
    return links + sure - in_sure - in_possible, links + sure


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

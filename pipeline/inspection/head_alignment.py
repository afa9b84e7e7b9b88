"""Word alignments read off attention: from one matrix to a table of every layer and head against a gold standard.

Row t of cross-attention was computed from input token t to predict output token t. Read on the *output* side it aligns
the word being predicted, on the *input* side the word just read. Which side, layer and head is best differs from model
to model (Garg et al. 2019; Kobayashi et al. 2020; Chen et al. 2020), so they are chosen on a development set.

Shapes: T target tokens, S source tokens; `...` is any number of leading axes, as (layer, head).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from pipeline.inspection.alignment import AlignmentCounts
from pipeline.inspection.record import Record
from pipeline.inspection.word_links import LINKS, as_links, link_words
from pipeline.text.pharaoh import GoldAlignment, Link

SIDES = ("output", "input")

ALIGNED_SITES = ("cross", "norms", "gradients")
"""What alignments can be read off: attention, attention times the length of what it weighs, gradient times input."""

MEAN_HEAD = "mean"
"""How the tables name the average of a layer's heads."""

_SHARES = ("aer", "precision", "recall", "eos_share")


@dataclass(frozen=True)
class Place:
    """Where alignments are read: a layer, a head (or `mean`), the label side, which words are linked (`LINKS`), and off
    which attention (`ALIGNED_SITES`)."""

    layer: int
    head: int | str
    side: str
    linked: str = "target"
    site: str = "cross"

    def weights(self, record: Record) -> np.ndarray:
        """The attention `(T, S)` of that site, layer and head."""
        heads = record.attention[self.site][self.layer]
        return heads.mean(axis=0) if self.head == MEAN_HEAD else heads[int(self.head)]

    def links(self, record: Record) -> set[Link]:
        """The word links of a record."""
        n_source, n_target = word_counts(record)
        rows = words_of_rows(record.target_words, self.side)
        matrix = word_matrix(self.weights(record), record.source_words, rows, n_source, n_target)
        return as_links(link_words(matrix, self.linked))


def places_of(record: Record) -> list[Place]:
    """Everywhere that alignments can be read: sides, in each the layers, in each the heads, then their mean."""
    layers, heads = record.attention["cross"].shape[:2]
    return [
        Place(layer, head, side) for side in SIDES for layer in range(layers) for head in [*range(heads), MEAN_HEAD]
    ]


def word_counts(record: Record) -> tuple[int, int]:
    """How many words the source and the target have, as far as tokens go."""
    source, target = (
        1 + max((word for word in words if word is not None), default=-1)
        for words in (record.source_words, record.target_words)
    )
    return source, target


def heads_and_mean(record: Record, site: str = "cross") -> np.ndarray:
    """The attention of a site with the mean of each layer's heads as a further head: `(layer, heads + 1, T, S)`."""
    weights = record.attention[site]
    return np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)


def words_of_rows(target_words: Sequence[int | None], side: str) -> list[int | None]:
    """The target word that each of the T rows speaks for.

    Args:
        target_words: word of each *output* token, None for EOS (`Record.target_words`).
        side: `output`: row t speaks for output token t. `input`: row t speaks for input token t, which is output token
            t - 1; the first row's is BOS. The last token's row is then the one that predicts EOS; a truncated sentence
            lacks it, so its last token goes without.

    Raises:
        ValueError: unknown side.
    """
    if side == "output":
        return list(target_words)
    if side == "input":
        return [None, *target_words][: len(target_words)]
    raise ValueError(f"side must be one of {', '.join(SIDES)}. Received: {side!r}")


def word_matrix(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    row_words: Sequence[int | None],
    n_source_words: int,
    n_target_words: int,
) -> np.ndarray:
    """Attention between words: the sum over a source word's pieces, the mean over a target word's pieces.

    Columns without a word (EOS) are left out and the rest is not renormalised, so a row may sum to less than 1.

    Args:
        weights: `(..., T, S)`.
        source_words: word of each of the S columns, or None.
        row_words: word of each of the T rows, or None; see `words_of_rows`.
        n_source_words: words of the source sentence.
        n_target_words: words of the target sentence.

    Returns:
        `(..., target words, source words)`; the row of a target word that has no token is zero.

    Raises:
        ValueError: the lists do not fit the axes, or a word lies outside its sentence.
    """
    if weights.shape[-2:] != (len(row_words), len(source_words)):
        raise ValueError(
            f"weights must end in ({len(row_words)} rows, {len(source_words)} columns). Received: {weights.shape}"
        )
    rows = _membership(row_words, n_target_words, "target")
    columns = _membership(source_words, n_source_words, "source")
    pieces = np.maximum(rows.sum(axis=0), 1)
    return (rows / pieces).T @ (weights @ columns)


def eos_argmax_share(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> np.ndarray:
    """How often `word_matrix` hides the largest weight: of the words' rows, how many have their raw argmax on EOS.

    EOS stands for every column without a word. Rows without a word are not counted.

    Returns:
        `(...)`, 0 to 1; not-a-number if no row has a word.
    """
    hidden, rows = _eos_argmax_counts(weights, source_words, row_words)
    return hidden / rows if rows else np.full(hidden.shape, np.nan)


def links_of_heads(record: Record, side: str) -> np.ndarray:
    """What every layer and head of the cross-attention, and the mean of each layer's heads, links.

    Returns:
        bool `(layer, heads + 1, target words, source words)`, the mean last: the largest weight of each target word.
    """
    n_source, n_target = word_counts(record)
    rows = words_of_rows(record.target_words, side)
    matrix = word_matrix(heads_and_mean(record), record.source_words, rows, n_source, n_target)
    return link_words(matrix, "target")


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
            weights, rows = heads_and_mean(record, site), words_of_rows(record.target_words, side)
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


def _membership(words: Sequence[int | None], count: int, name: str) -> np.ndarray:
    """`(tokens, words)`: 1 where the token belongs to the word."""
    member = np.zeros((len(words), count), np.float32)
    for token, word in enumerate(words):
        if word is None:
            continue
        if not 0 <= word < count:
            raise ValueError(f"{name} token {token} belongs to word {word} of {count}")
        member[token, word] = 1
    return member


def _eos_argmax_counts(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> tuple[np.ndarray, int]:
    """`(...)`: rows of words whose argmax is a column without a word; and the number of rows of words."""
    with_word = np.array([word is not None for word in row_words], bool)
    wordless = np.array([word is None for word in source_words], bool)
    hidden = wordless[weights[..., with_word, :].argmax(axis=-1)].sum(axis=-1)
    return hidden, int(with_word.sum())


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

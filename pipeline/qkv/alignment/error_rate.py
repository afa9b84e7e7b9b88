"""The error rate of word alignments against a gold standard, and the links of two baselines.

A link is `(i, j)`: source word i, target word j, both from 0. Error rates need pairs whose target text is given, since
gold links belong to the words of the reference.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..text.corpora.word_links import FROM_0, GoldAlignment, Link, OutsideLinks

LINK_COUNTS = ("links", "sure", "links_in_sure", "links_in_possible")
"""Counts of links A, sure links S and possible links P: |A|, |S|, |A and S|, |A and P|. They are summed over sentences
before any division."""


class AlignmentScore(NamedTuple):
    """Alignment error rate, precision and recall, from 0 to 1; not-a-number if there was nothing to count."""

    aer: Any
    precision: Any
    recall: Any

    @classmethod
    def of(cls, counts: np.ndarray) -> "AlignmentScore":
        """Scores counts `(..., 4)` (Och and Ney 2003): AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), precision
        against P, recall of S."""
        links, sure, in_sure, in_possible = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
        pairs = (in_sure + in_possible, links + sure), (in_possible, links), (in_sure, sure)
        rate, precision, recall = (
            np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)[()] for part, whole in pairs
        )
        return cls(1.0 - rate, precision, recall)


def count_links(links: Collection[Link], gold: GoldAlignment) -> np.ndarray:
    """Returns the `LINK_COUNTS` of one sentence, int `(4,)`."""
    given = frozenset(links)
    return np.array([len(given), len(gold.sure), len(given & gold.sure), len(given & gold.possible)])


def error_terms(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numerators and denominators of error rates, for `ratio`: |A| + |S| - |A and S| - |A and P| and
    |A| + |S|, from `LINK_COUNTS` `(..., 4)`."""
    links, sure, in_sure, in_possible = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    return links + sure - in_sure - in_possible, links + sure


def alignment_error_rate(links: Sequence[Collection[Link]], gold: Sequence[GoldAlignment]) -> AlignmentScore:
    """Scores a corpus. Counts are pooled over all sentences; rates of single sentences are never averaged."""
    counts = [count_links(own, right) for own, right in zip(links, gold, strict=True)]
    return AlignmentScore.of(np.sum(counts, axis=0) if counts else np.zeros(4))


def check_ranges(
    gold: Sequence[GoldAlignment],
    word_counts: Sequence[tuple[int, int]],
    path: str | Path,
    first_index: int = 0,
    remedy: str = FROM_0,
) -> tuple[list[GoldAlignment], int]:
    """Drops links that point outside their sentences, as some published sets contain, and warns of them.

    Args:
        gold: the alignments.
        word_counts: (source words, target words) of each sentence.
        path: their file, for messages.
        first_index, remedy: see `OutsideLinks`.

    Returns:
        The alignments, and how many links were dropped.

    Raises:
        InputError: no link is left, or words seem to be counted from 1.
    """
    outside = OutsideLinks(first_index, remedy)
    lines = enumerate(zip(gold, word_counts, strict=True), 1)
    checked = [outside.leave_out(one, *counts, location=f"{path}:{number}") for number, (one, counts) in lines]
    outside.report()
    if not any(alignment.possible for alignment in checked):
        raise InputError(
            f"{path}: no line has a link between words that exist ({outside.links} links are out of range); expected "
            f"links such as 0-0 1-2, words counted from {first_index}"
        )
    return checked, outside.links


def diagonal_links(n_source: int, n_target: int) -> set[Link]:
    """Baseline: links each target word with the source word whose middle is nearest, on sentences scaled to one length.

    A target word exactly between two source words is linked with the even one.
    """
    if not n_source:
        return set()
    return {(round((j + 0.5) / n_target * n_source - 0.5), j) for j in range(n_target)}


def random_links(n_source: int, n_target: int, generator: np.random.Generator) -> set[Link]:
    """Baseline: links each target word with a source word drawn uniformly."""
    if not n_source:
        return set()
    return {(int(i), j) for j, i in enumerate(generator.integers(n_source, size=n_target))}

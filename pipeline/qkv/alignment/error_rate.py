"""The alignment error rate against gold alignments, and the links of two baselines.

A link is `(i, j)`: source word i and target word j, both from 0. Gold links belong to the words of a reference, so only
links of references can be scored, not links of a model's translations.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..text.corpora.word_links import FROM_0, GoldAlignment, Link, OutsideLinks

LINK_COUNTS = ("links", "sure", "links_in_sure", "links_in_possible")
"""The counts behind an error rate: |A|, |S|, |A and S| and |A and P|, of links A, sure gold links S and possible gold
links P. They are summed over sentences before any division."""


class AlignmentScore(NamedTuple):
    """Alignment error rate, precision and recall, from 0 to 1. A rate whose denominator is 0 is NaN.

    Each is a float, or an array of floats for several sets of links.
    """

    aer: Any
    precision: Any
    recall: Any

    @classmethod
    def of(cls, counts: np.ndarray) -> "AlignmentScore":
        """Computes the rates from counts of links (Och and Ney 2003).

        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), precision = |A and P| / |A|, recall = |A and S| / |S|, for the
        links A, the sure gold links S and the possible gold links P.

        Args:
            counts: `(..., 4)`: |A|, |S|, |A and S| and |A and P|, in the order of `LINK_COUNTS`.

        Returns:
            The score. Its rates have the shape `(...)`.
        """
        links, sure, in_sure, in_possible = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
        accuracy = _divide(in_sure + in_possible, links + sure)
        return cls(1.0 - accuracy, _divide(in_possible, links), _divide(in_sure, sure))


def _divide(part: np.ndarray, whole: np.ndarray) -> Any:
    """Returns `part / whole` for arrays `(...)`; NaN if `whole` is 0. For arrays without axes the result is a float."""
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)[()]


def count_links(links: Collection[Link], gold: GoldAlignment) -> np.ndarray:
    """Counts the links A of one sentence against its gold alignment, with sure links S and possible links P.

    Returns:
        int `(4,)`: |A|, |S|, |A and S| and |A and P|, in the order of `LINK_COUNTS`.
    """
    links = frozenset(links)
    return np.array([len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible)])


def error_terms(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numerators and the denominators of alignment error rates.

    `statistics.resampling` computes intervals from them.

    Args:
        counts: `(..., 4)`: |A|, |S|, |A and S| and |A and P|, in the order of `LINK_COUNTS`.

    Returns:
        `(numerators, denominators)`, float `(...)` each: |A| + |S| - |A and S| - |A and P|, and |A| + |S|.
    """
    links, sure, in_sure, in_possible = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    return links + sure - in_sure - in_possible, links + sure


def alignment_error_rate(links: Sequence[Collection[Link]], gold: Sequence[GoldAlignment]) -> AlignmentScore:
    """Scores the links of a corpus. Counts are summed over all sentences before they are divided.

    Args:
        links: the links of each sentence pair.
        gold: the gold alignment of each sentence pair.

    Raises:
        ValueError: the numbers of sentence pairs differ.
    """
    counts = [count_links(sentence, alignment) for sentence, alignment in zip(links, gold, strict=True)]
    return AlignmentScore.of(np.sum(counts, axis=0) if counts else np.zeros(4))


def check_ranges(
    gold: Sequence[GoldAlignment],
    word_counts: Sequence[tuple[int, int]],
    path: str | Path,
    first_index: int = 0,
    remedy: str = FROM_0,
) -> tuple[list[GoldAlignment], int]:
    """Drops gold links that point outside their sentences, and warns of them. Some published sets have such links.

    Args:
        gold: the gold alignments.
        word_counts: the numbers of source words and of target words of each sentence pair.
        path: the file of the alignments, for messages.
        first_index: the number of the first word in that file, 0 or 1.
        remedy: the advice in the message if words seem to be counted from 1 although `first_index` is 0, see
            `text.corpora.word_links.OutsideLinks`.

    Returns:
        The alignments without the links that point outside their sentences, and the number of dropped links.

    Raises:
        InputError: no link remains; or words seem to be counted from 1.
    """
    outside = OutsideLinks(first_index, remedy)
    checked = []
    for number, (alignment, counts) in enumerate(zip(gold, word_counts, strict=True), 1):
        checked.append(outside.leave_out(alignment, *counts, location=f"{path}:{number}"))
    outside.report()
    if not any(alignment.possible for alignment in checked):
        raise InputError(
            f"{path}: no line has a link between words that exist ({outside.links} links are out of range); expected "
            f"links such as 0-0 1-2, words counted from {first_index}"
        )
    return checked, outside.links


def diagonal_links(n_source: int, n_target: int) -> set[Link]:
    """Returns the links of a baseline: each target word is linked to the source word at the same relative position.

    Both sentences are scaled to one length. A target word is linked to the source word with the nearest middle. If two
    source words are equally near, it is linked to the word with the even index.

    Args:
        n_source: the number of source words. If it is 0, the set is empty.
        n_target: the number of target words.
    """
    if not n_source:
        return set()
    return {(round((j + 0.5) / n_target * n_source - 0.5), j) for j in range(n_target)}


def random_links(n_source: int, n_target: int, generator: np.random.Generator) -> set[Link]:
    """Returns the links of a baseline: each target word is linked to a source word that is drawn uniformly.

    Args:
        n_source: the number of source words. If it is 0, the set is empty.
        n_target: the number of target words.
        generator: the generator of the random numbers.
    """
    if not n_source:
        return set()
    return {(int(i), j) for j, i in enumerate(generator.integers(n_source, size=n_target))}

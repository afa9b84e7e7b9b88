"""Extracts links between words from a matrix of attention between words: one function for each way."""

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..text.corpora.word_links import Link
from .symmetrise import grow_along_diagonals


class Readings:
    """What the ways of linking have in common, each read once.

    Args:
        matrix: `(..., target words, source words)`, as `word_matrix` returns it.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    @cached_property
    def target(self) -> np.ndarray:
        """Each target word with the source word of its largest weight."""
        return _largest(self.matrix, axis=-1)

    @cached_property
    def source(self) -> np.ndarray:
        """Each source word with the target word of its largest weight."""
        return _largest(self.matrix, axis=-2)

    @cached_property
    def grown(self) -> np.ndarray:
        """`grow_diag` of both, matrix by matrix."""
        mutual, open_places = self.target & self.source, self.target ^ self.source
        if not mutual.size:
            return mutual
        grown = mutual.copy()
        flat = grown.reshape(-1, *grown.shape[-2:])
        links, candidates = _links_of_each(mutual), _links_of_each(open_places)
        for number, more in candidates.items():
            for i, j in grow_along_diagonals(links[number], more):
                flat[number, j, i] = True
        return grown


def _over(threshold: float) -> Callable[[Readings], np.ndarray]:
    return lambda readings: readings.matrix > threshold


EXTRACTORS: dict[str, Callable[[Readings], np.ndarray]] = {
    "target": lambda readings: readings.target,
    "source": lambda readings: readings.source,
    "mutual": lambda readings: readings.target & readings.source,
    "grow-diag": lambda readings: readings.grown,
    "grow-diag-over-0.02": lambda readings: readings.grown & (readings.matrix > 0.02),
    **{f"over-{threshold}": _over(threshold) for threshold in (0.1, 0.2, 0.3, 0.4)},
}
"""The function of each of `config.names.inspection.EXTRACTIONS`."""


def extract_links(matrix: np.ndarray, extraction: str) -> np.ndarray:
    """Extracts links in one of the ways of `config.names.inspection.EXTRACTIONS`.

    Of equal weights the first wins; a row or column of zeros links nothing.

    Args:
        matrix: `(..., target words, source words)`, as `word_matrix` returns it.
        extraction: one of `config.names.inspection.EXTRACTIONS`.

    Returns:
        A bool array of the same shape.
    """
    return EXTRACTORS[extraction](Readings(matrix))


def extract_in_every_way(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Returns `extract_links` of every extraction."""
    readings = Readings(matrix)
    return {extraction: extract(readings) for extraction, extract in EXTRACTORS.items()}


def as_links(matrix: np.ndarray) -> set[Link]:
    """Returns the links (source word, target word) of a bool matrix `(target words, source words)`."""
    target, source = np.nonzero(matrix)
    return set(zip(source.tolist(), target.tolist(), strict=True))


def _links_of_each(matrices: np.ndarray) -> dict[int, set[Link]]:
    """Returns `as_links` of matrices `(..., target words, source words)`, by their number; an empty set by default."""
    links: dict[int, set[Link]] = defaultdict(set)
    places = np.nonzero(matrices.reshape(-1, *matrices.shape[-2:]))
    for number, target, source in zip(*(axis.tolist() for axis in places), strict=True):
        links[number].add((source, target))
    return links


def _largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Returns whether each weight is the largest along an axis (the first of equals) and more than zero."""
    largest = np.zeros(matrix.shape, bool)
    if 0 not in matrix.shape:
        np.put_along_axis(largest, np.expand_dims(matrix.argmax(axis=axis), axis), True, axis=axis)
    return largest & (matrix > 0)

"""Extracts links between words from a matrix of attention between words: one function for each way."""

from collections.abc import Callable

import numpy as np

from ..text.pharaoh import Link
from .symmetrise import grow_diag


def _largest_of_target_words(matrix: np.ndarray) -> np.ndarray:
    return _largest(matrix, axis=-1)


def _largest_of_source_words(matrix: np.ndarray) -> np.ndarray:
    return _largest(matrix, axis=-2)


def _grown(matrix: np.ndarray) -> np.ndarray:
    """Returns `grow_diag` of the links read for target words and those read for source words, matrix by matrix."""
    target, source = _largest_of_target_words(matrix), _largest_of_source_words(matrix)
    grown = np.zeros(target.shape, bool)
    for index in np.ndindex(target.shape[:-2]):
        for i, j in grow_diag(as_links(target[index]), as_links(source[index])):
            grown[index][j, i] = True
    return grown


def _over(threshold: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda matrix: matrix > threshold


EXTRACTORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "target": _largest_of_target_words,
    "source": _largest_of_source_words,
    "mutual": lambda matrix: _largest_of_target_words(matrix) & _largest_of_source_words(matrix),
    "grow-diag": _grown,
    "grow-diag-over-0.02": lambda matrix: _grown(matrix) & (matrix > 0.02),
    **{f"over-{threshold}": _over(threshold) for threshold in (0.1, 0.2, 0.3, 0.4)},
}
"""The function of each of `config.names.EXTRACTIONS`."""


def extract_links(matrix: np.ndarray, extraction: str) -> np.ndarray:
    """Extracts links in one of the ways of `config.names.EXTRACTIONS`.

    Of equal weights the first wins; a row or column of zeros links nothing.

    Args:
        matrix: `(..., target words, source words)`, as `word_matrix` returns it.
        extraction: one of `config.names.EXTRACTIONS`.

    Returns:
        A bool array of the same shape.
    """
    return EXTRACTORS[extraction](matrix)


def as_links(matrix: np.ndarray) -> set[Link]:
    """Returns the links (source word, target word) of a bool matrix `(target words, source words)`."""
    return {(int(i), int(j)) for j, i in zip(*np.nonzero(matrix), strict=True)}


def _largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Returns whether each weight is the largest along an axis (the first of equals) and more than zero."""
    largest = np.zeros(matrix.shape, bool)
    if 0 not in matrix.shape:
        np.put_along_axis(largest, np.expand_dims(matrix.argmax(axis=axis), axis), True, axis=axis)
    return largest & (matrix > 0)

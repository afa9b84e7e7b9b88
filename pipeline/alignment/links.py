"""Which words a matrix of attention between words links."""

from collections.abc import Callable

import numpy as np

from ..text.pharaoh import Link
from .symmetrise import grow_diag


def _target(matrix: np.ndarray) -> np.ndarray:
    return _largest(matrix, axis=-1)


def _source(matrix: np.ndarray) -> np.ndarray:
    return _largest(matrix, axis=-2)


def _grow(matrix: np.ndarray) -> np.ndarray:
    """`grow_diag` of every matrix with itself, read from both sides, as two alignments are otherwise."""
    target, source = _target(matrix), _source(matrix)
    grown = np.zeros(target.shape, bool)
    for place in np.ndindex(target.shape[:-2]):
        for i, j in grow_diag(as_links(target[place]), as_links(source[place])):
            grown[place][j, i] = True
    return grown


def _over(threshold: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda matrix: matrix > threshold


_WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "target": _target,
    "source": _source,
    "mutual": lambda matrix: _target(matrix) & _source(matrix),
    "grow-diag": _grow,
    "grow-diag-over-0.02": lambda matrix: _grow(matrix) & (matrix > 0.02),
    **{f"over-{threshold}": _over(threshold) for threshold in (0.1, 0.2, 0.3, 0.4)},
}

LINKS = tuple(_WAYS)
"""Each target word with the source word that it attends to most; each source word with the target word by which it is
attended to most; those on which both agree; these, grown by those of either that touch them and align a word that had
none; the same without links of hardly any weight; and whatever has more than a tenth, two, three or four tenths of a
target word's attention."""


def link_words(matrix: np.ndarray, linked: str) -> np.ndarray:
    """The links of one way of `LINKS`. Of equal weights the first wins; a row or column of zeros links nothing.

    Args:
        matrix: `(..., target words, source words)`, as `word_matrix` gives it.
        linked: the way.

    Returns:
        A bool array of the same shape.
    """
    return _WAYS[linked](matrix)


def as_links(matrix: np.ndarray) -> set[Link]:
    """Links (source word, target word) of a bool matrix `(target words, source words)`."""
    return {(int(i), int(j)) for j, i in zip(*np.nonzero(matrix), strict=True)}


def _largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Whether a weight is the largest along an axis, the first of equals, and more than zero."""
    found = np.zeros(matrix.shape, bool)
    if 0 not in matrix.shape:
        np.put_along_axis(found, np.expand_dims(matrix.argmax(axis=axis), axis), True, axis=axis)
    return found & (matrix > 0)

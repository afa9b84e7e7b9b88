"""Links between words: their extraction from attention, and the symmetrisation of the links of two directions.

An extraction method turns a matrix of attention between words into links. Symmetrisation combines the links of a model
from source to target (forward) and of a model from target to source (backward), as phrase-based translation does (Och
and Ney 2003, section 4.3).

A link is (source word, target word) in both directions.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cached_property

import numpy as np

from ..text.corpora.word_links import Link


class WordLinks:
    """The sets of links from which extraction methods are built. Each is computed once, at its first use.

    Args:
        matrix: attention between words `(..., target words, source words)`, see `alignment.word_matrix.word_matrix`.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    @cached_property
    def target(self) -> np.ndarray:
        """A link from each target word to the source word of its largest weight; bool, of the shape of `matrix`."""
        return _is_largest(self.matrix, axis=-1)

    @cached_property
    def source(self) -> np.ndarray:
        """A link from each source word to the target word of its largest weight; bool, of the shape of `matrix`."""
        return _is_largest(self.matrix, axis=-2)

    @cached_property
    def grown(self) -> np.ndarray:
        """The result of `grow_diag` on `source` and `target`, for each matrix; bool, of the shape of `matrix`."""
        mutual = self.target & self.source
        one_sided = self.target ^ self.source
        if not mutual.size:
            return mutual
        grown = mutual.copy()
        flat = grown.reshape(-1, *grown.shape[-2:])
        links_by_matrix = _links_of_each(mutual)
        for number, candidates in _links_of_each(one_sided).items():
            for i, j in grow_along_diagonals(links_by_matrix[number], candidates):
                flat[number, j, i] = True
        return grown


def _above(threshold: float) -> Callable[[WordLinks], np.ndarray]:
    """Returns the extraction method that links all words with a weight above the threshold."""
    return lambda links: links.matrix > threshold


EXTRACTORS: dict[str, Callable[[WordLinks], np.ndarray]] = {
    "target": lambda links: links.target,
    "source": lambda links: links.source,
    "mutual": lambda links: links.target & links.source,
    "grow-diag": lambda links: links.grown,
    "grow-diag-over-0.02": lambda links: links.grown & (links.matrix > 0.02),
    **{f"over-{threshold}": _above(threshold) for threshold in (0.1, 0.2, 0.3, 0.4)},
}
"""The function of each extraction method in `config.choices.inspection.EXTRACTIONS`."""


def extract_links(matrix: np.ndarray, extraction: str) -> np.ndarray:
    """Extracts links from attention between words.

    If several weights of a row or column are largest, the first of them is linked. A row or column of zeros has no
    links.

    Args:
        matrix: `(..., target words, source words)`, see `alignment.word_matrix.word_matrix`.
        extraction: the extraction method, a key of `EXTRACTORS`.

    Returns:
        bool, of the same shape: True for a link.
    """
    return EXTRACTORS[extraction](WordLinks(matrix))


def as_links(matrix: np.ndarray) -> set[Link]:
    """Converts a bool matrix `(target words, source words)` to a set of links (source word, target word)."""
    target, source = np.nonzero(matrix)
    return set(zip(source.tolist(), target.tolist(), strict=True))


def _links_of_each(matrices: np.ndarray) -> dict[int, set[Link]]:
    """Returns the links of each of several bool matrices `(..., target words, source words)`.

    The keys are the indices of the matrices after their leading axes are flattened. A matrix without links has no key;
    looking it up returns an empty set.
    """
    links: dict[int, set[Link]] = defaultdict(set)
    indices = np.nonzero(matrices.reshape(-1, *matrices.shape[-2:]))
    for number, target, source in zip(*(axis.tolist() for axis in indices), strict=True):
        links[number].add((source, target))
    return links


def _is_largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Returns a bool array: True if a weight is above 0 and is the first of the largest weights along the axis."""
    largest = np.zeros(matrix.shape, bool)
    if 0 not in matrix.shape:
        np.put_along_axis(largest, np.expand_dims(matrix.argmax(axis=axis), axis), True, axis=axis)
    return largest & (matrix > 0)


Symmetrisation = Callable[[Collection[Link], Collection[Link]], set[Link]]
"""A function that combines forward and backward links, both (source word, target word)."""

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""The steps (in source words, in target words) from a link to its neighbours, in the order in which `grow_diag` visits
them."""


def intersection(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the links that both directions have. They are few, and mostly correct."""
    return set(forward) & set(backward)


def union(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the links that at least one direction has. They are many, and hardly any correct link is missing."""
    return set(forward) | set(backward)


def grow_diag(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the intersection, grown by links of the union.

    A link of the union is added if it is a neighbour of a link and if its source word or its target word has no link
    yet. Links are visited in order until none is added, as in Moses (Koehn et al. 2005, section 2.1).
    """
    links = intersection(forward, backward)
    return links | grow_along_diagonals(links, union(forward, backward) - links)


def grow_along_diagonals(links: Collection[Link], candidates: Collection[Link]) -> set[Link]:
    """Returns the candidates that `grow_diag` adds to the links.

    Args:
        links: the links from which the growth starts.
        candidates: the links that may be added. None of them is in `links`.
    """
    sources = {i for i, _ in links}
    targets = {j for _, j in links}
    grown = set(links)
    remaining = set(candidates)
    has_grown = True
    while has_grown and remaining:
        has_grown = False
        # Only links next to a candidate can add one.
        next_to_candidates = {(i - down, j - right) for i, j in remaining for down, right in NEIGHBOURS}
        for i, j in sorted(next_to_candidates & grown):
            for down, right in NEIGHBOURS:
                new = (i + down, j + right)
                if new in remaining and (new[0] not in sources or new[1] not in targets):
                    remaining.remove(new)
                    grown.add(new)
                    sources.add(new[0])
                    targets.add(new[1])
                    has_grown = True
    return grown.difference(links)


def grow_diag_final_and(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the links of `grow_diag`, and further links of either direction between two words without a link.

    Forward links are added first, then backward links, each in the order of source words and target words.
    """
    links = grow_diag(forward, backward)
    sources = {i for i, _ in links}
    targets = {j for _, j in links}
    for direction in (forward, backward):
        for i, j in sorted(direction):
            if i not in sources and j not in targets:
                links.add((i, j))
                sources.add(i)
                targets.add(j)
    return links


SYMMETRISATION_FUNCTIONS: dict[str, Symmetrisation] = {
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final-and": grow_diag_final_and,
}
"""The function of each way to symmetrise in `config.choices.inspection.SYMMETRISATIONS`."""

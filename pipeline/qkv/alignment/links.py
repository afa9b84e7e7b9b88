"""Links between words, read off a matrix of attention between words, one function for each way; and the alignments of
two directions combined, as phrase-based translation does (Och and Ney 2003, section 4.3).

Links are (source word, target word) in both directions, source to target (forward) and target to source (backward).
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cached_property

import numpy as np

from ..text.corpora.word_links import Link


class WordLinks:
    """The links of a `word_matrix` that several ways of linking share, each read once."""

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


def _over(threshold: float) -> Callable[[WordLinks], np.ndarray]:
    return lambda links: links.matrix > threshold


EXTRACTORS: dict[str, Callable[[WordLinks], np.ndarray]] = {
    "target": lambda links: links.target,
    "source": lambda links: links.source,
    "mutual": lambda links: links.target & links.source,
    "grow-diag": lambda links: links.grown,
    "grow-diag-over-0.02": lambda links: links.grown & (links.matrix > 0.02),
    **{f"over-{threshold}": _over(threshold) for threshold in (0.1, 0.2, 0.3, 0.4)},
}
"""The function of each of `config.choices.inspection.EXTRACTIONS`."""


def extract_links(matrix: np.ndarray, extraction: str) -> np.ndarray:
    """Extracts links from a `word_matrix` in one of the ways of `config.choices.inspection.EXTRACTIONS`: bool, of the
    same shape. Of equal weights the first wins; a row or column of zeros links nothing."""
    return EXTRACTORS[extraction](WordLinks(matrix))


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


Symmetrisation = Callable[[Collection[Link], Collection[Link]], set[Link]]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def intersection(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the links that are in both: few, and mostly correct."""
    return set(forward) & set(backward)


def union(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Returns the links that are in either: many, with hardly one missing."""
    return set(forward) | set(backward)


def grow_diag(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Grows the intersection by links of the union that touch one of its links and align a word without a link.

    Links are visited in order until no more are added, as in Moses (Koehn et al. 2005, section 2.1).
    """
    links = intersection(forward, backward)
    return links | grow_along_diagonals(links, union(forward, backward) - links)


def grow_along_diagonals(links: Collection[Link], candidates: Collection[Link]) -> set[Link]:
    """Returns the candidates, none of them among the links, that `grow_diag` adds to the links."""
    sources, targets = {i for i, _ in links}, {j for _, j in links}
    grown = set(links)
    left = set(candidates)
    added = True
    while added and left:
        added = False
        # Of all links only those beside a candidate can add one.
        beside = {(i - down, j - right) for i, j in left for down, right in NEIGHBOURS}
        for i, j in sorted(beside & grown):
            for down, right in NEIGHBOURS:
                new = (i + down, j + right)
                if new in left and (new[0] not in sources or new[1] not in targets):
                    left.remove(new)
                    grown.add(new)
                    sources.add(new[0])
                    targets.add(new[1])
                    added = True
    return grown.difference(links)


def grow_diag_final_and(forward: Collection[Link], backward: Collection[Link]) -> set[Link]:
    """Applies `grow_diag`, then adds the links of either direction between two words that have no link."""
    links = grow_diag(forward, backward)
    sources, targets = {i for i, _ in links}, {j for _, j in links}
    for direction in (forward, backward):
        for i, j in sorted(direction):
            if i not in sources and j not in targets:
                links.add((i, j))
                sources.add(i)
                targets.add(j)
    return links


SYMMETRISATIONS: dict[str, Symmetrisation] = {
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final-and": grow_diag_final_and,
}

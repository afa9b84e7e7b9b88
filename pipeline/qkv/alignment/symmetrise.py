"""Combines the alignments of two directions, as phrase-based translation does (Och and Ney 2003, section 4.3).

Links are (source word, target word) in both directions, source to target (forward) and target to source (backward).
"""

from collections.abc import Callable, Collection

from ..text.corpora.word_links import Link

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
    grown, left, added = set(links), set(candidates), True
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

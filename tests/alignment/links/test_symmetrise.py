"""Two directions made into one alignment: cases worked by hand, and what must hold of any two."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qkv.alignment.links import (
    NEIGHBOURS,
    SYMMETRISATION_FUNCTIONS,
    grow_diag,
    grow_diag_final_and,
    intersection,
    union,
)

LINKS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # a neighbour whose source word has no link, below one that both have
        ({(0, 0), (1, 1)}, {(0, 0)}, {(0, 0), (1, 1)}),
        # a neighbour between two words that have links already is left out
        ({(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}, {(0, 0), (1, 1)}),
        # what was added is grown from in its turn
        ({(0, 0), (1, 1), (2, 2)}, {(0, 0)}, {(0, 0), (1, 1), (2, 2)}),
        # too far away to grow to
        ({(0, 0), (3, 3)}, {(0, 0)}, {(0, 0)}),
        # two target words of one source word
        ({(0, 0)}, {(0, 0), (0, 1)}, {(0, 0), (0, 1)}),
        (set(), {(0, 0)}, set()),
    ],
)
def test_grow_diag_gives_links_worked_out_by_hand(forward, backward, expected):
    assert grow_diag(forward, backward) == expected


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", range(5))
def test_a_link_grows_to_the_eight_around_it_and_no_further(source, target):
    around = max(abs(source - 2), abs(target - 2)) <= 1
    assert grow_diag({(2, 2), (source, target)}, {(2, 2)}) == ({(2, 2), (source, target)} if around else {(2, 2)})


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ({(0, 0), (3, 3)}, {(0, 0)}, {(0, 0), (3, 3)}),  # both words free
        ({(0, 0), (3, 0)}, {(0, 0)}, {(0, 0)}),  # the target word is taken
        ({(3, 3)}, {(3, 4), (5, 5)}, {(3, 3), (5, 5)}),  # forward goes first and takes source word 3
    ],
)
def test_final_and_links_words_that_are_both_free(forward, backward, expected):
    assert grow_diag_final_and(forward, backward) == expected


@given(LINKS, LINKS)
def test_every_symmetrisation_lies_between_intersection_and_union(forward, backward):
    least, most = intersection(forward, backward), union(forward, backward)
    for symmetrise in SYMMETRISATION_FUNCTIONS.values():
        assert least <= symmetrise(forward, backward) <= most
    assert grow_diag(forward, backward) <= grow_diag_final_and(forward, backward)


@given(LINKS)
def test_an_alignment_with_itself_is_itself(links):
    for symmetrise in SYMMETRISATION_FUNCTIONS.values():
        assert symmetrise(links, links) == links


@given(LINKS, LINKS)
def test_after_the_last_step_no_link_between_two_free_words_is_left(forward, backward):
    links = grow_diag_final_and(forward, backward)
    sources, targets = {i for i, _ in links}, {j for _, j in links}
    assert not any(i not in sources and j not in targets for i, j in union(forward, backward))


@given(LINKS, LINKS)
def test_growing_does_not_depend_on_which_direction_is_called_forward(forward, backward):
    assert grow_diag(forward, backward) == grow_diag(backward, forward)


def test_grow_diag_is_that_which_looks_at_all_links_in_every_pass():
    """The definition, visit by visit, on thousands of small alignments with many ties."""
    random = np.random.default_rng(5)
    for _ in range(2000):
        rows, columns = random.integers(1, 7, 2)
        forward, backward = ({(i, j) for i, j in np.argwhere(random.random((rows, columns)) < 0.35)} for _ in range(2))
        links, candidates, added = forward & backward, forward | backward, True
        while added:
            added = False
            for i, j in sorted(links):
                for down, right in NEIGHBOURS:
                    new = (i + down, j + right)
                    is_free = new[0] not in {i for i, _ in links} or new[1] not in {j for _, j in links}
                    if new in candidates - links and is_free:
                        links.add(new)
                        added = True
        assert grow_diag(forward, backward) == links

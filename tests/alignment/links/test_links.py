"""Every extraction against links known by hand."""

import numpy as np
import pytest

from qkv.alignment.links import as_links, extract_links
from qkv.alignment.word_matrix import word_matrix
from qkv.config.choices.inspection import EXTRACTIONS
from tests.support.oracles import one_hot


def test_a_target_word_without_tokens_is_a_zero_row_and_gets_no_link():
    matrix = word_matrix(one_hot([0, 1], 3), [0, 1, None], [0, None], 2, 3)
    np.testing.assert_array_equal(matrix, [[1, 0], [0, 0], [0, 0]])
    assert as_links(extract_links(matrix, "target")) == {(0, 0)}


@pytest.mark.parametrize(
    ("extraction", "expected"),
    [
        ("target", {(1, 0), (0, 1)}),
        ("source", {(0, 1), (1, 0), (2, 1)}),
        ("mutual", {(1, 0), (0, 1)}),
        ("grow-diag", {(1, 0), (0, 1), (2, 1)}),  # source word 2 had no link, and 2-1 touches 1-0
        ("over-0.3", {(1, 0), (0, 1), (2, 1)}),
        ("over-0.4", {(1, 0)}),
    ],
)
def test_words_are_linked_by_the_first_of_the_largest_weights_of_either_side(extraction, expected):
    matrix = np.array([[0.1, 0.7, 0.1], [0.4, 0.1, 0.4], [0, 0, 0]])
    assert as_links(extract_links(matrix, extraction)) == expected
    opposite = {"target": "source", "source": "target"}.get(extraction, extraction)
    assert as_links(extract_links(np.stack([matrix.T, matrix.T]), extraction)[1]) == {
        (i, j) for j, i in as_links(extract_links(matrix, opposite))
    }


def test_grown_links_of_hardly_any_weight_can_be_left_out():
    matrix = np.array([[0.9, 0.01, 0], [0.005, 0.004, 0.03]])
    assert as_links(extract_links(matrix, "grow-diag")) == {(0, 0), (1, 0), (2, 1)}
    assert as_links(extract_links(matrix, "grow-diag-over-0.02")) == {(0, 0), (2, 1)}


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 0, 3)])
def test_matrices_without_words_have_no_links(shape):
    assert not any(extract_links(np.zeros(shape), extraction).any() for extraction in EXTRACTIONS)

"""Attention between words: source pieces are added up, target pieces averaged, on the side that is asked for."""

from types import SimpleNamespace

import numpy as np
import pytest

from qkv.alignment.word_matrix import eos_argmax_counts, row_words, word_counts, word_matrix
from tests.support.oracles import one_hot, word_matrix_by_loops

SOURCE = (0, 0, 1, 2, 2, None)  # three words in five pieces, then EOS
TARGET = (0, 1, 1, 1, 2, 3, 3, None)


@pytest.mark.parametrize("side", ["output", "input"])
def test_word_matrix_sums_source_pieces_and_averages_target_pieces(make_record, side):
    weights = make_record(4, SOURCE, TARGET).attention["cross"]
    rows = row_words(TARGET, side)
    matrices = word_matrix(weights, SOURCE, rows, 3, 4)
    assert matrices.shape == (2, 3, 4, 3)
    for index in np.ndindex(2, 3):
        expected = word_matrix_by_loops(weights[index], SOURCE, rows, 3, 4)
        np.testing.assert_allclose(matrices[index], expected, atol=1e-6)
        np.testing.assert_allclose(word_matrix(weights[index], SOURCE, rows, 3, 4), expected, atol=1e-6)


def test_eos_column_is_left_out_and_the_rest_is_not_renormalised(make_record):
    weights = make_record(4, SOURCE, TARGET).attention["cross"][0, 0]
    matrix = word_matrix(weights, SOURCE, TARGET, 3, 4)
    assert matrix.sum(axis=1) == pytest.approx(
        [1 - weights[[t for t, word in enumerate(TARGET) if word == j], -1].mean() for j in range(4)], abs=1e-6
    )


def test_lists_that_do_not_fit_the_axes_are_refused(make_record):
    weights = make_record(4, SOURCE, TARGET).attention["cross"]
    with pytest.raises(ValueError, match="mismatch"):
        word_matrix(weights.swapaxes(2, 3), SOURCE, TARGET, 3, 4)


def test_words_are_counted_up_to_the_last_that_has_a_token():
    record = SimpleNamespace(source_words=(0, 2, 2, None), target_words=(None, None))
    assert word_counts(record) == (3, 0)


def test_input_side_reads_each_word_one_row_later():
    assert row_words([0, 1, 1, None], "output") == [0, 1, 1, None]
    assert row_words([0, 1, 1, None], "input") == [None, 0, 1, 1]  # the row that predicts EOS read the last word


def test_input_side_of_a_truncated_sentence_lacks_its_last_token():
    assert row_words([0, 1, 2], "input") == [None, 0, 1]


def test_largest_weights_without_a_word_are_counted_over_words_rows_alone():
    weights = one_hot([2, 0, 2, 1, 2], 3)  # the last row is EOS's own and does not count
    counts, rows = eos_argmax_counts(np.stack([weights, np.roll(weights, 1, axis=1)]), [0, 1, None], [0, 0, 1, 2, None])
    assert counts.tolist() == [2, 1] and rows == 4
    assert eos_argmax_counts(weights[:1], [0, 1, None], [None])[1] == 0


def test_rows_of_a_sentence_without_source_words_are_not_counted():
    assert eos_argmax_counts(np.ones((1, 3, 1)), [None], [0, 1, None])[1] == 0

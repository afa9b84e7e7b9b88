"""Links of the mean of several runs' attention, on matrices that are made by hand."""

import numpy as np
import pytest

from qkv.alignment.linking import LEAST_NEIGHBOUR, mean_links
from qkv.alignment.readout import AlignmentReadout

READOUTS = [AlignmentReadout(0, 0, "output")] * 2


@pytest.fixture
def pair(make_record):
    """Makes the records of two directions from the `(target words, source words)` of each, named by the first."""

    def make(forward, backward):
        records = []
        for number, matrix in enumerate((np.array(forward, float), np.array(backward, float).T)):
            targets, sources = matrix.shape
            words = ((*range(count), None) for count in (sources, targets))
            record = make_record(number, *words, layers=1, heads=1)
            attention = record.attention["cross"]
            attention[:] = 0
            attention[0, 0, :targets, :sources] = matrix
            records.append(record)
        return records

    return make


def test_what_one_direction_is_sure_of_outweighs_what_the_other_guesses(pair):
    forward = [[0.9, 0.1, 0.0], [0.1, 0.3, 0.35], [0.0, 0.1, 0.9]]
    backward = [[0.9, 0.1, 0.0], [0.0, 0.95, 0.0], [0.0, 0.0, 0.9]]
    # alone, the first direction links target word 1 with source word 2
    assert mean_links(READOUTS, pair(forward, backward)) == {(0, 0), (1, 1), (2, 2)}


def test_neighbours_above_the_threshold_are_added_to_a_word_without_a_link(pair):
    forward, backward = np.array([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]), np.array([[0.9, 0.5, 0.1], [0.1, 0.0, 0.9]])
    assert (forward + backward)[0, 1] / 2 > LEAST_NEIGHBOUR
    assert mean_links(READOUTS, pair(forward, backward)) == {(0, 0), (1, 0), (2, 1)}
    backward[0, 1] = 0.3
    assert mean_links(READOUTS, pair(forward, backward)) == {(0, 0), (2, 1)}
    # a link that is no neighbour stays out, however heavy it is
    far = np.array([[0.9, 0.0, 0.0, 0.6], [0.0, 0.7, 0.0, 0.0]])
    assert mean_links(READOUTS, pair(far, far)) == {(0, 0), (1, 1)}


def test_a_matrix_that_one_direction_has_cut_short_counts_as_zero_there(pair):
    forward, backward = np.eye(2, 3), np.eye(3)
    assert mean_links(READOUTS, pair(forward, backward)) == {(0, 0), (1, 1), (2, 2)}


def test_no_weight_is_no_link(pair):
    assert mean_links(READOUTS, pair(np.zeros((2, 3)), np.zeros((2, 3)))) == set()


def test_characters_that_share_a_token_are_linked_together(make_record):
    record = make_record(source_words=(1, None), target_words=(1, 2, None), layers=1, heads=1)
    record.attention["cross"][:] = [[[[0.9, 0.1], [0.2, 0.8], [0.0, 1.0]]]]
    opposite = make_record(source_words=(0, 1, 2, None), target_words=(0, 1, None), layers=1, heads=1)
    opposite.attention["cross"][:] = [[[[0.45, 0.45, 0.1, 0.0], [0.45, 0.45, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0]]]]
    assert mean_links(READOUTS, [record, opposite]) == {(i, j) for i in range(2) for j in range(2)}


def test_each_direction_counts_once_however_many_runs_it_has(pair):
    sure, unsure = [[0.9, 0.0], [0.0, 0.9]], [[0.0, 0.8], [0.8, 0.0]]
    forward, backward = pair(sure, unsure)
    assert mean_links(READOUTS, [forward, backward]) == {(0, 0), (1, 1)}
    three = mean_links([READOUTS[0]] * 3, [forward, backward, backward], (False, True, True))
    assert three == {(0, 0), (1, 1)}  # the mean of all three matrices would link the others
    assert mean_links(READOUTS, [forward, forward], (False, False)) == {(0, 0), (1, 1)}

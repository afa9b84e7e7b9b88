"""Features of links against loops over words, for one model and for two of opposite directions."""

import numpy as np
import pytest

from qkv.alignment.link_probabilities import link_features, pair_features, probabilities_of
from qkv.alignment.links import as_links
from qkv.alignment.word_matrix import row_words, word_matrix
from tests.support.records import EMPTY_SIDES, make_calibration, number_of_features


def largest_other(weights, row, column, along_row):
    others = np.delete(weights[row], column) if along_row else np.delete(weights[:, column], row)
    return others.max() if others.size else 0.0


def neighbour(weights, row, column):
    inside = 0 <= row < weights.shape[0] and 0 <= column < weights.shape[1]
    return weights[row, column] if inside else 0.0


def features_by_loops(record, layer):
    attention = record.attention["cross"][layer]
    found, means = {}, []
    for side in ("output", "input"):
        rows = row_words(record.target_words, side)
        for head in [*attention, attention.mean(axis=0)]:
            weights = word_matrix(head, record.source_words, rows, 3, 2)
            for j, i in np.ndindex(weights.shape):
                rivals = (largest_other(weights, j, i, along_row) for along_row in (True, False))
                found.setdefault((j, i), []).extend(np.log([weights[j, i] + 1e-3, *(r + 1e-3 for r in rivals)]))
        means.append(weights)
    for (j, i), features in found.items():
        for down, right in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)):
            features.extend(np.log(neighbour(mean, j + down, i + right) + 1e-3) for mean in means)
    return np.array([[found[j, i] for i in range(3)] for j in range(2)])


@pytest.mark.parametrize("layer", [0, 1])
def test_each_weight_stands_beside_its_rivals_and_neighbours(make_record, layer):
    record = make_record()
    features, candidates = link_features(record, layer)
    assert features.shape == (2, 3, number_of_features(heads=3)) and candidates.shape == (2, 3)
    np.testing.assert_allclose(features, features_by_loops(record, layer), rtol=1e-4)


def test_words_between_which_no_head_has_a_weight_are_never_linked(make_record):
    record = make_record(layers=1, heads=2)
    record.attention["cross"][..., 2] = 0.01  # all of source word 1
    _, candidates = link_features(record, 0)
    assert candidates.tolist() == [[True, False, True]] * 2
    sure = make_calibration((0,), (*[0.0] * number_of_features(2), 9.0))
    assert sure.matrix([record])[:, 1].tolist() == [0, 0]
    assert as_links(sure.matrix([record]) > 0.5) == {(0, 0), (2, 0), (0, 1), (2, 1)}
    assert probabilities_of({(0, 1), (1, 0)}, sure.matrix([record])) == {(0, 1): pytest.approx(1, abs=1e-3), (1, 0): 0}


def test_a_sentence_of_one_word_has_no_rivals_and_neighbours(make_record):
    record = make_record(source_words=(0, None), target_words=(0, None), layers=1, heads=1)
    features, _ = link_features(record, 0)
    of_heads, neighbours = np.split(features[0, 0], [12])
    np.testing.assert_allclose([*of_heads.reshape(-1, 3)[:, 1:].ravel(), *neighbours], np.log(1e-3))


def test_the_model_of_the_opposite_direction_adds_features_of_the_same_words(make_record):
    record = make_record()
    opposite = make_record(9, record.target_words, record.source_words)
    features, candidates = pair_features([record, opposite], [0, 1])
    forward, backward = link_features(record, 0), link_features(opposite, 1)
    for j, i in np.ndindex(2, 3):
        np.testing.assert_array_equal(features[j, i], [*forward[0][j, i], *backward[0][i, j]])
        assert candidates[j, i] == (forward[1][j, i] or backward[1][i, j])


def test_words_that_one_model_has_cut_off_are_judged_by_the_other(make_record):
    record = make_record()
    opposite = make_record(9, (0, 1, 2, None), record.source_words)  # a third target word
    features, candidates = pair_features([record, opposite], [0, 0])
    assert features.shape[:2] == candidates.shape == (3, 3)
    np.testing.assert_allclose(features[2, :, : number_of_features(3)], np.log(1e-3))
    np.testing.assert_array_equal(candidates[2], link_features(opposite, 0)[1][:, 2])


def test_characters_that_share_a_token_have_one_probability(make_record):
    record = make_record(source_words=(1, 2, None), target_words=(2, None), layers=1, heads=1)
    coefficients = np.random.default_rng(0).normal(size=number_of_features(1) + 1)
    matrix = make_calibration((0,), tuple(coefficients)).matrix([record])
    assert matrix.shape == (3, 3)
    np.testing.assert_array_equal(matrix[0], matrix[2])
    np.testing.assert_array_equal(matrix[:, 0], matrix[:, 1])


def test_records_of_another_number_of_heads_are_refused(make_record):
    with pytest.raises(ValueError, match="mismatch"):
        make_calibration((0,), (0.0, 0.0)).matrix([make_record()])


@pytest.mark.parametrize(("source_words", "target_words"), EMPTY_SIDES)
def test_an_empty_side_has_no_candidates_and_no_links(make_record, source_words, target_words):
    record = make_record(0, source_words, target_words, layers=1, heads=2)
    shape = len(target_words) - 1, len(source_words) - 1
    features, candidates = link_features(record, 0)
    assert features.shape == (*shape, number_of_features(2)) and candidates.shape == shape
    sure = make_calibration((0,), (*[0.0] * number_of_features(2), 9.0))
    assert as_links(sure.matrix([record]) > 0.5) == set() and probabilities_of(set(), sure.matrix([record])) == {}
    both = make_calibration((0, 0), (*[0.0] * 2 * number_of_features(2), 9.0))
    opposite = make_record(0, target_words, source_words, layers=1, heads=2)
    assert as_links(both.matrix([record, opposite]) > 0.5) == set()

"""How the links of two directions become those of a pair."""

import numpy as np
import pytest

from qkv.alignment.linking import Linking, mean_links
from qkv.alignment.readout import AlignmentReadout
from tests.support.records import make_calibration, number_of_features

READOUTS = [AlignmentReadout(0, "mean", "output", "source")] * 2


@pytest.fixture
def records(make_record):
    record = make_record()
    return [record, make_record(9, record.target_words, record.source_words)]


@pytest.fixture
def calibration():
    coefficients = np.random.default_rng(4).normal(size=2 * number_of_features(3) + 1) / 5
    return make_calibration((0, 0), coefficients, 0.4)


def test_the_links_of_two_readouts_are_combined(records):
    forward, backward = (readout.links(record) for readout, record in zip(READOUTS, records, strict=True))
    turned = {(i, j) for j, i in backward}
    assert forward != turned
    assert Linking("intersection")(READOUTS, records) == forward & turned
    assert Linking("union")(READOUTS, records) == forward | turned
    assert Linking("union")(READOUTS[:1], records[:1]) == forward


def test_links_by_probability_are_those_above_the_threshold_whatever_the_readouts_say(records, calibration):
    matrix = calibration.matrix(records)
    expected = {(int(i), int(j)) for j, i in np.argwhere(matrix > 0.4)}
    assert 0 < len(expected) < matrix.size
    assert Linking("probable", calibration)(READOUTS, records) == expected


@pytest.mark.parametrize("way", ["probable", "mean-weights", "union"])
def test_links_have_their_probabilities_where_those_are_wanted(records, calibration, way):
    links = Linking(way, calibration)(READOUTS, records)
    found = Linking(way, calibration, with_probabilities=True)(READOUTS, records)
    matrix = calibration.matrix(records)
    assert found == {(i, j): pytest.approx(matrix[j, i]) for i, j in links}


def test_links_by_mean_weights_need_no_calibration(records):
    assert Linking("mean-weights")(READOUTS, records) == mean_links(READOUTS, records)

"""Links above a threshold as a way of linking, and how they are scored."""

import json

import numpy as np
import pytest

from qkv.alignment.error_rate import LINK_COUNTS, alignment_error_rate
from qkv.alignment.gold import GoldSet
from qkv.alignment.head_scores import GoldScores
from qkv.alignment.link_probabilities import calibrate
from qkv.alignment.readout import AlignmentReadout, describe_readout
from qkv.config.choices.inspection import PROBABLE
from qkv.text.corpora.corpus import Corpus
from qkv.text.tokens.words import BETWEEN_SPACES
from tests.support.records import make_calibration, noisy_pairs

READOUT = AlignmentReadout(0, "mean", "output", "mutual", chosen_on="development")


@pytest.fixture
def pairs(make_record):
    return noisy_pairs(make_record, 80)


@pytest.fixture
def calibration(pairs):
    return calibrate(([record] for record in pairs[0][:40]), pairs[1][:40], [0], "development")


@pytest.fixture
def gold_set(pairs):
    lines = [""] * 40
    return GoldSet("test", Corpus(lines, lines, range(40), "test"), pairs[1][40:], 0, BETWEEN_SPACES, [(4, 3)] * 40)


def test_links_above_the_threshold_are_chosen_only_where_their_error_rate_is_lower(calibration):
    for aer, extraction in ((calibration.aer + 0.01, PROBABLE), (calibration.aer, "mutual")):
        readout = READOUT.calibrated(calibration, aer)
        assert readout.linked == readout.to_json()["linked"] == extraction
        assert readout.extraction == "mutual" and readout.chosen_on == "development"


def test_links_are_those_of_the_extraction_and_all_have_their_probability(pairs, calibration):
    record = pairs[0][50]
    matrix = calibration.matrix([record])
    probable, plain = (READOUT.calibrated(calibration, aer) for aer in (1.0, 0.0))
    assert probable.links(record) == {(i, j) for j, i in np.argwhere(matrix > calibration.threshold)}
    assert plain.links(record) == READOUT.links(record) == set(plain.link_probabilities(record))
    assert all(p == matrix[j, i] for (i, j), p in plain.link_probabilities(record).items())


def scores_of(readout, records, gold_set):
    scores = GoldScores(gold_set, readout)
    for record in records:
        scores.add(record)
    return scores.scores()


def test_scores_are_those_of_the_links_and_of_every_sentence(pairs, calibration, gold_set):
    records = pairs[0][40:]
    readout = READOUT.calibrated(calibration, 1.0)
    found = scores_of(readout, records, gold_set)
    expected = alignment_error_rate([readout.links(record) for record in records], gold_set.gold)
    row = found.table.iloc[-1]
    assert (row["aer"], row["precision"], row["recall"]) == (expected.aer, expected.precision, expected.recall)
    assert row["aer_low"] < expected.aer < row["aer_high"] and row["linked"] == PROBABLE
    assert found.sentences["id"].tolist() == [*range(40)] and set(found.sentences["head"]) == {"mean"}
    sums = found.sentences[list(LINK_COUNTS)].sum()
    assert sums["links_in_sure"] / sums["sure"] == expected.recall
    weighted = sum((calibration.matrix([record]) > 0).sum() for record in records)
    assert found.reliability["number"].sum() == weighted


@pytest.mark.parametrize("aer", [1.0, 0.0])
def test_metrics_have_the_chosen_way_beside_all_others(pairs, calibration, gold_set, aer):
    records = pairs[0][40:]
    readout = READOUT.calibrated(calibration, aer)
    scores = scores_of(readout, records, gold_set)
    metrics = json.loads(json.dumps(scores.metrics, allow_nan=False))
    expected = alignment_error_rate([readout.links(record) for record in records], gold_set.gold)
    assert metrics["aer"] == pytest.approx(100 * expected.aer)
    assert metrics["aer_by_links"][metrics["linked"]] == metrics["aer"] and PROBABLE in metrics["aer_by_links"]
    assert metrics["threshold"] == calibration.threshold and 0 < metrics["expected_calibration_error"] < 25
    sums = scores.sentences[(scores.sentences["head"] == "mean")][list(LINK_COUNTS)].sum()
    assert sums["links_in_sure"] / sums["sure"] == expected.recall


def test_a_calibration_of_nothing_has_no_error():
    assert np.isnan(make_calibration((0,), (0.0,)).error)


def test_probable_links_are_said_to_read_all_heads_on_both_sides():
    assert describe_readout(0, "mean", "output", "source") == "layer 0, head mean, output side, source links"
    assert describe_readout(1, 2, "input", "probable") == "layer 1, all heads on both sides, probable links"

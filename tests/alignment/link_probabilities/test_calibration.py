"""Calibration on records whose attention is known to be right as often as it says."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from qkv.alignment import link_probabilities
from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.link_probabilities import (
    FOLDS,
    LEAST_PAIRS,
    calibrate,
    calibration_error_of_links,
    write_calibration,
)
from qkv.alignment.links import as_links
from qkv.statistics.logistic_regression import fit_logistic
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.records import EMPTY_SIDES, build_record, make_calibration, noisy_pairs

PAIRS = 90


@pytest.fixture(scope="module")
def pairs():
    return noisy_pairs(build_record, PAIRS)


@pytest.fixture(scope="module")
def calibrated(pairs):
    records, gold = pairs
    return calibrate(([record] for record in records), gold, [0], "development")


def test_the_file_of_a_calibration_has_its_numbers_and_null_for_an_unknown_error(calibrated, tmp_path):
    path = tmp_path / "link_calibration.json"
    write_calibration(path, calibrated)
    found = json.loads(path.read_text())
    assert found["coefficients"] == list(calibrated.coefficients)
    assert found["expected_calibration_error"] == calibrated.error
    assert (found["pairs"], found["chosen_on"]) == (PAIRS, "development")
    write_calibration(path, replace(calibrated, reliability=()))
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["expected_calibration_error"] is None


def test_no_pair_is_judged_by_a_fit_that_has_seen_it(pairs, monkeypatch):
    """The cross-fitted figures are those of fits on the other parts, one by one."""
    records, gold = pairs
    fitted = []
    monkeypatch.setattr(
        link_probabilities, "fit_logistic", lambda *data: fitted.append(fit_logistic(*data)) or fitted[-1]
    )
    found = calibrate(([record] for record in records), gold, [0], "development")
    folds = fitted[:FOLDS]
    links, in_bins = [], Counter()
    for number, record in enumerate(records):
        unseen = make_calibration((0,), folds[number % FOLDS])
        links.append(as_links(unseen.matrix([record]) > found.threshold))
        in_bins.update(int(10 * p) for p in unseen.matrix([record]).ravel() if p > 0)
    assert np.isclose(found.aer, alignment_error_rate(links, gold).aer)
    assert {round(10 * one.low): one.number for one in found.reliability} == in_bins
    others = [number for number in range(PAIRS) if number % FOLDS != 1]
    seen = [link_probabilities._find_candidates([records[n]], [0], gold[n]) for n in others]
    features, right = (np.concatenate([getattr(one, name) for one in seen]) for name in ("features", "possible"))
    np.testing.assert_allclose(folds[1], fit_logistic(features, right))


@pytest.mark.minutes
def test_no_other_threshold_has_a_lower_error_rate(pairs, calibrated):
    sentences = [
        link_probabilities._find_candidates([record], [0], links) for record, links in zip(*pairs, strict=True)
    ]
    predicted = [np.random.default_rng(n).random(len(one.possible)) for n, one in enumerate(sentences)]
    sure, possible = (np.concatenate([getattr(one, name) for one in sentences]) for name in ("sure", "possible"))
    sure_links = sum(one.sure_links for one in sentences)
    threshold, aer = link_probabilities._best_threshold(np.concatenate(predicted), sure, possible, sure_links)
    rates = {}
    for tried in np.arange(5, 96) / 100:
        links = [links_over(tried, *own) for own in zip(pairs[0], predicted, strict=True)]
        rates[float(tried)] = alignment_error_rate(links, pairs[1]).aer
    assert aer == pytest.approx(min(rates.values())) and rates[threshold] == pytest.approx(aer)


def links_over(threshold, record, predicted):
    _, candidates = link_probabilities.pair_features([record], [0])
    words = [(int(i), int(j)) for j, i in np.argwhere(candidates)]
    return {link for link, p in zip(words, predicted, strict=True) if p > threshold}


def test_probabilities_of_unseen_pairs_are_what_they_say(make_record, calibrated):
    records, gold = noisy_pairs(make_record, 600)
    records, gold = records[PAIRS:], gold[PAIRS:]
    predicted, right = [], []
    for record, links in zip(records, gold, strict=True):
        matrix = calibrated.matrix([record])
        predicted += [p for p in matrix.ravel() if p > 0]
        right += [(i, j) in links.possible for j, i in np.ndindex(matrix.shape) if matrix[j, i] > 0]
    table = link_probabilities.reliability_table(np.array(predicted), np.array(right))
    assert calibration_error_of_links(table) < 0.06
    weights = np.array([record.attention["cross"][0, 0, :3, :4] for record in records]).ravel()
    is_right = np.array([[[(i, j) in g.possible for i in range(4)] for j in range(3)] for g in gold]).ravel()
    assert (
        calibration_error_of_links(link_probabilities.reliability_table(weights, is_right)) > 0.1
    )  # attention itself is not


def test_two_directions_together_are_better_than_one(make_record, pairs, calibrated):
    records, gold = pairs
    turned = []
    for number, (record, links) in enumerate(zip(records, gold, strict=True)):
        other = make_record(number, record.target_words, record.source_words, layers=1, heads=1)
        other.attention["cross"][:] = 0.1
        for i, j in links.possible:
            other.attention["cross"][0, 0, i, j] = 0.7
        turned.append(other)
    both = calibrate(zip(records, turned, strict=True), gold, [0, 0], "development")
    assert both.layers == (0, 0)
    assert both.aer < calibrated.aer / 2


def test_few_pairs_or_gold_links_that_tell_nothing_calibrate_nothing(pairs):
    records, gold = ([*side[: LEAST_PAIRS - 1]] for side in pairs)
    assert calibrate(([record] for record in records), gold, [0], "few") is None
    records = [[record] for record in pairs[0]]
    assert calibrate(records, [GoldAlignment(frozenset(), frozenset())] * PAIRS, [0], "no links") is None


def test_pairs_beyond_the_most_are_not_read(pairs, monkeypatch):
    assert link_probabilities.MOST_PAIRS == 1000
    monkeypatch.setattr(link_probabilities, "MOST_PAIRS", 40)
    assert calibrate(([record] for record in pairs[0]), pairs[1], [0], "").pairs == 40


def test_pairs_with_an_empty_side_count_nothing(pairs, calibrated, make_record):
    records, gold = pairs
    empty = [make_record(0, source, target, layers=1, heads=1) for source, target in EMPTY_SIDES]
    mixed = [[record] for record in [empty[0], *records[:7], *empty[1:], *records[7:]]]
    nothing = GoldAlignment(frozenset(), frozenset())
    links = [nothing, *gold[:7], nothing, nothing, *gold[7:]]
    assert calibrate(mixed, links, [0], "development") == calibrated
    few = [[record] for record in [*records[: LEAST_PAIRS - 1], *empty]]
    assert calibrate(few, [*gold[: LEAST_PAIRS - 1], *[nothing] * 3], [0], "development") is None

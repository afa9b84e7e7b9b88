"""The file of a calibration is read as it was written, and refused if a number is not what it should be."""

import json
from dataclasses import replace

import pytest

from qkv.alignment.calibration import Calibration
from qkv.alignment.calibration_file import read_calibration, write_calibration
from qkv.alignment.link_probabilities import LinkProbabilities
from qkv.errors import InputError
from qkv.statistics.reliability import ReliabilityBin

CALIBRATION = Calibration(
    LinkProbabilities((0,), (0.1, -2.5, 3.0)),
    threshold=0.6,
    aer=0.02,
    reliability=(ReliabilityBin(0.9, 1.0, 7, 0.95, 1.0),),
    pairs=50,
    chosen_on="validation",
    weights=("ab12",),
)


@pytest.fixture
def path(tmp_path):
    write_calibration(tmp_path / "link_calibration.json", CALIBRATION)
    return tmp_path / "link_calibration.json"


def test_a_calibration_is_read_as_it_was_written(path):
    assert read_calibration(path) == CALIBRATION


def test_where_no_link_is_likely_the_error_is_null_and_the_file_is_read_back(tmp_path):
    unlikely = replace(CALIBRATION, reliability=(ReliabilityBin(0.0, 0.1, 40, 0.05, 0.05),))
    write_calibration(tmp_path / "link_calibration.json", unlikely)
    content = (tmp_path / "link_calibration.json").read_text()
    assert json.loads(content, parse_constant=pytest.fail)["expected_calibration_error"] is None
    assert read_calibration(tmp_path / "link_calibration.json") == unlikely


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("threshold", 1.5, "threshold"),
        ("threshold", "0.5", "threshold"),
        ("coefficients", [1.0, None], "coefficients.1"),
        ("coefficients", [1.0], "coefficients"),
        ("coefficients", [1e308, -1e308], "coefficients.0"),
        ("coefficients", [1.0, -1e308], "coefficients.1"),
        ("coefficients", [1.0, 10**400], "coefficients.1"),
        ("layers", [], "layers"),
        ("layers", [0.5], "layers.0"),
        ("reliability", [{"low": 0, "high": 1, "number": 1, "predicted": 2, "right": 1}], "reliability.0.predicted"),
        ("format", 2, "format"),
        ("code", "print()", "code"),
    ],
)
def test_a_wrong_number_is_refused_and_named(path, key, value, named):
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match=rf"link_calibration\.json of an evaluation of this run; {named}: ") as error:
        read_calibration(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"coefficients": [NaN, Infinity]}'])
def test_what_is_no_calibration_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(InputError, match="evaluate again"):
        read_calibration(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.json"):
        read_calibration(tmp_path / "none.json")


def test_numbers_that_are_not_finite_are_refused(path):
    path.write_text(path.read_text().replace("-2.5", "NaN"))
    with pytest.raises(InputError, match=r"coefficients\.1"):
        read_calibration(path)

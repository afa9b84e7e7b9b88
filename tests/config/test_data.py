"""Settings of the normalisation of typed text."""

import pytest

from qkv.config.data import NormalizeSettings
from qkv.config.run import changes_of_result
from tests.support.tiny_runs import parsed, problem


def test_nothing_is_normalised_by_default(config_file):
    assert parsed(config_file).data.normalize is None


def test_parts_are_chosen_one_by_one(config_file):
    data = parsed(config_file, "--data.tokenized", "true", "--data.normalize.moses", "true").data
    assert data.normalize == NormalizeSettings(lowercase=False, moses=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("normalize: {moses: true}", "data: normalize divides words, and tokenized is false; expected tokenized: true"),
        (
            "tokenized: true\n  normalize: {europarl: true}",
            "data.normalize: europarl is not a setting any more; delete it. Divide typed text into words before qkv",
        ),
        ("normalize: {mosse: true}", "data.normalize.mosse"),
    ],
)
def test_normalisation_that_does_not_fit_the_text_is_refused(settings, message, config_file):
    text = config_file.read_text().replace("data:\n", f"data:\n  {settings}\n")
    assert message in problem(config_file, text=text)


@pytest.mark.parametrize("value", ["false", "null"])
def test_a_switch_of_older_versions_that_is_off_is_left_out(value, config_file):
    text = config_file.read_text().replace("data:\n", f"data:\n  normalize: {{lowercase: true, europarl: {value}}}\n")
    config_file.write_text(text)
    assert parsed(config_file).data.normalize.model_dump() == {"lowercase": True, "moses": False}


def test_a_resumed_run_may_normalise_otherwise(config_file):
    start = parsed(config_file, "--data.tokenized", "true")
    now = parsed(config_file, "--data.tokenized", "true", "--data.normalize.moses", "true")
    assert changes_of_result(start, now) == changes_of_result(now, start) == []

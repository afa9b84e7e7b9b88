"""Settings of the normalisation of typed text."""

import pytest

from qkv.config.data import NormalizeSettings
from qkv.config.run import changes_of_result
from tests.support.tiny_runs import parsed, problem


def test_nothing_is_normalised_by_default(config_file):
    assert parsed(config_file).data.normalize is None


def test_parts_are_chosen_one_by_one(config_file):
    data = parsed(config_file, "--data.tokenized", "true", "--data.normalize.moses", "true").data
    assert data.normalize == NormalizeSettings(lowercase=False, moses=True, europarl=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("normalize: {moses: true}", "data: normalize divides words, and tokenized is false; expected tokenized: true"),
        ("tokenized: true\n  normalize: {moses: true, europarl: true}", "either moses or europarl, found both"),
        ("normalize: {mosse: true}", "data.normalize.mosse"),
    ],
)
def test_normalisation_that_does_not_fit_the_text_is_refused(settings, message, config_file):
    text = config_file.read_text().replace("data:\n", f"data:\n  {settings}\n")
    assert message in problem(config_file, text=text)


def test_words_are_divided_as_in_europarl_in_its_languages_alone(config_file):
    text = config_file.read_text().replace("source_language: en", "source_language: de\n  normalize: {europarl: true}")
    message = problem(config_file, text=text.replace("data:\n", "data:\n  tokenized: true\n"))
    assert "data: normalize.europarl: expected source_language en or fr, found 'de'" in message


def test_a_resumed_run_may_normalise_otherwise(config_file):
    start = parsed(config_file, "--data.tokenized", "true")
    now = parsed(config_file, "--data.tokenized", "true", "--data.normalize.moses", "true")
    assert changes_of_result(start, now) == changes_of_result(now, start) == []

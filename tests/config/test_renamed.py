"""Keys by the names that they had before."""

import logging

import pytest

from qkv.config import load_run_config
from qkv.config.model import TransformerSettings
from qkv.config.renamed import RENAMED, rename_keys
from tests.config_files import MINIMAL, parsed, problem


def test_an_old_key_sets_the_new_one_and_says_so(config_file, caplog):
    config_file.write_text(MINIMAL + "model:\n  scores: {cross: additive, encoder_self: cosine}\n  d_model: 64\n")
    config = load_run_config(config_file)
    assert isinstance(config.model, TransformerSettings)
    attention = config.model.attention
    assert (attention.cross.score, attention.encoder_self.score, config.model.d_model) == ("additive", "cosine", 64)
    assert "model.scores.cross is now called model.attention.cross.score" in caplog.text
    assert f"{config_file}:9" in caplog.text


@pytest.mark.parametrize("option", [["--model.scores.cross", "additive"], ["--model.scores.cross=additive"]])
def test_an_old_option_sets_the_new_key(config_file, option, caplog):
    config_file.write_text(MINIMAL)
    assert parsed(config_file, *option).model.attention.cross.score == "additive"
    assert "--model.scores.cross is now called --model.attention.cross.score" in caplog.text


def test_both_names_at_once_are_refused(config_file):
    text = MINIMAL + "model:\n  scores: {cross: additive}\n  attention: {cross: {score: dot}}\n"
    assert problem(config_file, text=text).startswith("model.scores: no such key")


def test_a_wrong_value_is_reported_at_the_line_of_the_old_name(config_file):
    text = MINIMAL + "model:\n  scores: {cross: manhattan}\n"
    told = problem(config_file, text=text)
    assert told.startswith("model.attention.cross.score: expected one of scaled_dot")
    assert told.endswith("(small.yaml:9)")


def test_new_names_alone_are_left_as_they_are_without_a_word(caplog):
    values = {"model": {"attention": {"cross": {"score": "dot"}}}}
    with caplog.at_level(logging.INFO):
        assert rename_keys(values, {}) == (values, {})
    assert not caplog.text


def test_every_new_name_is_a_key(config_file):
    from qkv.config.options import settable_keys

    config_file.write_text(MINIMAL)
    assert set(RENAMED.values()) <= {key for key, _ in settable_keys()}


def test_a_hint_without_a_known_place_ends_with_the_sentence(caplog):
    rename_keys({"model": {"scores": {"cross": "dot"}}}, {})
    assert caplog.messages == [
        "model.scores.cross is now called model.attention.cross.score; the old name works for one more version"
    ]

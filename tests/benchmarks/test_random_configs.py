"""Settings drawn from the schema; tests/benchmarks/random_configs.py trains a hundred of them."""

import random

import pytest

from qkv.config.choices.model import MECHANISM_INFO
from qkv.config.run import flat_settings
from tests.benchmarks.random_configs import Draw, check_run, fields_of, names_of, write_corpora
from tests.support.minutes import by_hand


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("text"))


@pytest.mark.minutes
def test_every_name_of_every_list_is_drawn_within_a_hundred_configs(text, tmp_path):
    listed, drawn = set(), set()
    for seed in range(1, 101):
        config = Draw(seed, text, tmp_path).config()
        listed |= {(key, name) for key, field in fields_of(config) for name in names_of(field)}
        drawn |= {(key, value) for key, value in flat_settings(config.model_dump()) if isinstance(value, str | bool)}
    refused = {
        (f"model.attention.{site}.mechanism", name)
        for name, mechanism in MECHANISM_INFO.items()
        for site, _ in mechanism.refused
    }
    assert listed - drawn == refused


def test_the_same_number_draws_the_same_config(text, tmp_path):
    assert Draw(7, text, tmp_path).config() == Draw(7, text, tmp_path).config() != Draw(8, text, tmp_path).config()


@pytest.mark.minutes
@by_hand
def test_a_run_of_random_settings_is_killed_resumed_evaluated_and_shown(text, tmp_path):
    check_run(Draw(2, text, tmp_path / "runs").config(), tmp_path, random.Random(2))  # the rules of 1 leave no text

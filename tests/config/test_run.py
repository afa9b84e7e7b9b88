"""Settings of a run: what options replace."""

import argparse

import numpy as np
import pytest

from qkv.commands.cli import add_decoding_options, add_seed_option
from qkv.config import load_run_config
from qkv.config.run import dotted_settings, with_decoding, with_decoding_values
from qkv.errors import InputError


@pytest.fixture
def changed(config_file):
    """The settings of decoding that options lead to, and the seed."""

    def parse(*options, **settings):
        parser = argparse.ArgumentParser()
        add_decoding_options(parser)
        add_seed_option(parser)
        config = load_run_config(config_file)
        config = config.model_copy(update={"decoding": config.decoding.model_copy(update=settings)})
        config = with_decoding(config, vars(parser.parse_args(options)))
        return config.decoding, config.run.seed

    return parse


@pytest.mark.parametrize(
    ("own", "options", "expected"),
    [(1, ["--n_best", "3"], 3), (5, ["--n_best", "3"], 5), (5, ["--n_best", "3", "--beam_size", "4"], 4), (5, [], 5)],
)
def test_more_translations_widen_the_beam_unless_its_size_is_given(own, options, expected, changed):
    decoding, _ = changed(*options, beam_size=own)
    assert decoding.beam_size == expected
    assert decoding.n_best == (3 if options else 1)


@pytest.mark.parametrize("n_best", ["0", "many", "1.5"])
def test_a_number_of_translations_that_is_none_is_refused(n_best, changed):
    with pytest.raises(
        InputError, match=r"decoding\.n_best: expected an integer >= 1 and <= 1000, found .*\(command line\)"
    ):
        changed("--n_best", n_best)


def test_the_seed_replaces_that_of_the_run(changed):
    assert changed("--search", "sampling")[1] == 1
    assert changed("--search", "sampling", "--seed", "7")[1] == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "7"], "--seed: no effect in beam search; expected --search sampling as well"),
        (["--search", "sampling", "--seed", "-1"], r"run\.seed: expected an integer >= 0 .*found -1 \(command line\)"),
    ],
)
def test_a_seed_that_cannot_be_used_is_refused(options, message, changed):
    with pytest.raises(InputError, match=message):
        changed(*options)


@pytest.mark.parametrize("kind", [int, np.int64])
def test_numbers_of_translations_from_python_widen_the_beam(config_file, kind):
    assert with_decoding_values(load_run_config(config_file), {"n_best": kind(7)}).decoding.beam_size == 7


@pytest.mark.parametrize(
    "settings",
    [
        {"model": {"d_model": 8, "attention": {"cross": {"score": "dot"}}}, "run.name": "a"},
        {"model.d_model": 8, "model": {"attention": {"cross.score": "dot"}}, "run": {"name": "a"}},
        {"model.attention": {"cross": {"score": "dot"}}, "run.name": "a", "model": {"d_model": 8}},
    ],
    ids=["nested", "mixed", "below a dotted key"],
)
def test_settings_from_python_may_be_nested(settings):
    assert dotted_settings(settings) == {"model.d_model": 8, "model.attention.cross.score": "dot", "run.name": "a"}


def test_lists_and_other_values_are_no_sections():
    values = {"data.train": [{"source": "a", "target": "b"}], "training.freeze": (), "run.name": None}
    assert dotted_settings(values) == values


def circle():
    settings = {}
    settings["model"] = settings
    return settings


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            [("model.d_model", 8)],
            r"expected a dictionary such as {\"model.d_model\": 64}, found \[\('model.d_model', 8\)\]",
        ),
        (5, "expected a dictionary such as .*, found 5"),
        ({5: 8}, 'expected keys that are text, such as "model.d_model", found 5'),
        ({"model": {None: 8}}, 'expected keys that are text, such as "model.d_model", found None'),
        ({"model..d_ff": 8}, "expected keys such as \"model.d_model\", found 'model..d_ff'"),
        ({"model": {"": 8}}, "expected keys such as \"model.d_model\", found ''"),
        ({"model": {}}, "model: an empty dictionary changes nothing"),
        ({"model": {"d_ff": 8}, "model.d_ff": 8}, "model.d_ff: expected one value, found two"),
        ({"model.attention": 8, "model": {"attention.cross": 8}}, "model.attention: expected one value, found two"),
        ({"model": {"attention.cross": 8, "attention": 8}}, "model.attention: expected one value, found two"),
        (circle(), r"model\.model.*: nested more than 20 levels deep"),
    ],
)
def test_settings_of_another_form_are_refused(settings, told):
    with pytest.raises(InputError, match=f"^settings: {told}"):
        dotted_settings(settings)

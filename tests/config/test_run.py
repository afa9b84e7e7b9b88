"""Settings of a run: what options replace."""

import argparse

import pytest

from qkv.commands.cli import add_decoding_options, add_seed_option
from qkv.config import load_run_config
from qkv.config.run import with_decoding
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

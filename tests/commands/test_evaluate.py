"""How evaluate checks its options, and where its results go."""

from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest

from qkv.commands import evaluate, translate
from qkv.commands.cli import read_search
from qkv.commands.evaluate import results_name
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from tests.support.tiny_runs import write_stub


@pytest.fixture
def make(tmp_path):
    return partial(write_stub, tmp_path)


@pytest.mark.parametrize("command", [evaluate, translate])
def test_commands_check_further_runs_while_they_read_their_arguments(command, make, capsys):
    a, b, c = make("a"), make("b"), make("c", tokenizer=b"other")
    options = command.make_parser().parse_args([str(a), str(b), "--beam_size", "1"])
    assert (options.run.root, [run.root for run in options.others]) == (a, [b])
    assert command.make_parser().parse_args([str(a)]).others == []
    assert command.main([str(a), "--beam_size", "1", str(b)]) == 2
    assert f"unrecognized arguments: {b}; give all folders side by side, before the opt" in capsys.readouterr().err
    assert command.main([str(a), str(b), str(c)]) == 2
    assert "have different tokenizers" in capsys.readouterr().err


def test_sampling_is_not_spread(make):
    run = str(make("a"))
    read_search(evaluate.make_parser().parse_args([run, "--search", "sampling"]))
    with pytest.raises(InputError, match="--workers: sampling draws one translation after the other"):
        read_search(evaluate.make_parser().parse_args([run, "--search", "sampling", "--workers", "2"]))


def test_heads_of_one_model_cannot_be_replaced_in_an_ensemble(make, capsys):
    runs = [str(make(name)) for name in "ab"]
    for option in ("--perturb", "--faithfulness"):
        assert evaluate.main([*runs, option, "3"]) == 2
        assert f"{option} is an experiment on one model; evaluate each run" in capsys.readouterr().err


def test_a_first_index_needs_the_links_that_it_counts(make):
    options = evaluate.make_parser().parse_args([str(make("a")), "--first_index", "1"])
    with pytest.raises(InputError, match="--first_index needs --alignments"):
        evaluate.check_options(options)


def test_a_name_that_would_be_too_long_is_asked_for(make):
    runs = [make(letter * 90) for letter in "abc"]
    options = evaluate.make_parser().parse_args([*map(str, runs), "--name", "all"])
    evaluate.check_options(options)
    with pytest.raises(InputError, match=r"--name: expected the name of a folder, of at most 200 bytes"):
        evaluate.check_options(Namespace(**vars(options) | {"name": None}))


@pytest.mark.parametrize("name", ["x\ny", "a\x1b[31mb", "a\u200bb", "a\u202eb", "a\x7fb", "a\u2028b", "a\ue000b"])
def test_a_new_name_has_no_characters_that_cannot_be_printed(make, name):
    run = make("a")
    options = evaluate.make_parser().parse_args([str(run), "--name", name])
    with pytest.raises(InputError, match=r"--name: expected .* of characters that can be printed, found") as told:
        evaluate.check_options(options)
    assert str(told.value).isprintable()
    (run / "evaluations" / name).mkdir(parents=True)  # an older version's, which is evaluated again
    evaluate.check_options(options)


def test_a_long_name_is_told_in_one_short_line(make):
    run = str(make("a"))
    for name in ("n" * 5000, "a/" * 2500):
        options = evaluate.make_parser().parse_args([run, "--name", name])
        with pytest.raises(InputError, match="--name: expected the name of a folder, ") as told:
            evaluate.check_options(options)
        assert len(str(told.value)) < 200


OTHERS = [RunDirectory(Path(name)) for name in ("runs/b", "c/")]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "test"),
        ({"set": "validation", "forced": True}, "validation.forced"),
        ({"source": Path("texts/test.en"), "ban": Path("words")}, "test.en.ban"),
        ({"others": OTHERS}, "test.ensemble-with-b-and-c"),
        ({"others": OTHERS, "forced": True}, "test.forced.ensemble-with-b-and-c"),
        ({"others": OTHERS, "name": "mine"}, "mine"),
    ],
)
def test_results_are_named_after_what_was_given(given, name):
    none = {"name": None, "set": "test", "source": None, "forced": False, "prefix": None, "require": None, "ban": None}
    assert results_name(Namespace(**none | {"others": []} | given)) == name

"""Which runs can translate together, and what they and their results are called."""

from argparse import Namespace
from pathlib import Path

import pytest

from qkv.commands import evaluate, translate
from qkv.config.ensemble import check_members, check_members_search, member_names, results_name
from qkv.config.run import dump, load_started_run, make_run_config
from qkv.errors import InputError
from tests.support.tiny_runs import small_settings


@pytest.fixture
def make(tmp_path):
    """Makes the folder of a run with weights, of a tokenizer and of other settings."""

    def make_run(name, tokenizer=b"one", **changes):
        root = tmp_path / name
        (root / "tokenizer").mkdir(parents=True)
        settings = small_settings(tmp_path, tmp_path, {key.replace("__", "."): value for key, value in changes.items()})
        (root / "config.yaml").write_text(dump(make_run_config(settings, {}, name)), encoding="utf-8")
        (root / "tokenizer/sentencepiece.model").write_bytes(tokenizer)
        (root / "model.keras").touch()
        return root

    return make_run


def test_runs_of_one_tokenizer_and_other_models_and_seeds_translate_together(make):
    wide = {"model__d_model": 16, "run__seed": 2, "decoding__beam_size": 7}
    check_members([make("a"), make("b", **wide), make("c", model__max_positions=99)])


def test_other_tokenizers_are_refused_with_both_files_and_the_way_to_one(make):
    a, b, c = make("a"), make("b"), make("c", tokenizer=b"other")
    with pytest.raises(InputError) as refusal:
        check_members([a, b, c])
    said = str(refusal.value)
    assert said.startswith(
        f"{a} and {c} have different tokenizers, {a}/tokenizer/sentencepiece.model (SHA-256 7692c3ad"
    )
    assert f" and {c}/tokenizer/sentencepiece.model (SHA-256 d9298a10" in said
    assert f"qkv train --config {a}/config.yaml --run.name NAME --run.seed 2" in said


def test_other_languages_are_refused(make):
    a, b = make("a"), make("b", data__target_language="de")
    with pytest.raises(InputError, match=r"a/config\.yaml and \S*b/config\.yaml have different data\.target_"):
        check_members([a, b])


@pytest.mark.parametrize("command", [evaluate, translate])
def test_commands_check_further_runs_while_they_read_their_arguments(command, make, capsys):
    a, b, c = make("a"), make("b"), make("c", tokenizer=b"other")
    options = command.make_parser().parse_args([str(a), str(b), "--beam_size", "1"])
    assert (options.run, options.others) == (a, [b])
    assert command.make_parser().parse_args([str(a)]).others == []
    assert command.main([str(a), "--beam_size", "1", str(b)]) == 2
    assert f"unrecognized arguments: {b}; give all folders side by side, before the opt" in capsys.readouterr().err
    assert command.main([str(a), str(b), str(c)]) == 2
    assert "have different tokenizers" in capsys.readouterr().err


def test_a_search_that_a_further_model_cannot_do_is_refused(make):
    run = make("b", model={"architecture": "recurrent", "cross_attention": "none"})
    config = load_started_run(make("a", decoding__coverage_penalty=0.2) / "config.yaml")
    with pytest.raises(InputError, match=r"b/config\.yaml: decoding\.coverage_penalty: a model without cross"):
        check_members_search(config, [run])
    check_members_search(load_started_run(make("c") / "config.yaml"), [run])


def test_heads_of_one_model_cannot_be_replaced_in_an_ensemble(make, capsys):
    runs = [str(make(name)) for name in "ab"]
    assert evaluate.main([*runs, "--perturb", "3"]) == 2
    assert "--perturb replaces heads of one model; evaluate each run" in capsys.readouterr().err
    assert evaluate.main([*runs, "--faithfulness", "3"]) == 2
    assert "--faithfulness measures one model's attention; evaluate each run" in capsys.readouterr().err


def test_a_name_that_would_be_too_long_is_asked_for(make):
    runs = [make(letter * 90) for letter in "abc"]
    options = evaluate.make_parser().parse_args([*map(str, runs), "--name", "all"])
    evaluate.check_options(options)
    with pytest.raises(InputError, match=r"--name: expected the name of a folder, of at most 200 bytes"):
        evaluate.check_options(Namespace(**vars(options) | {"name": None}))


@pytest.mark.parametrize(
    ("roots", "names"),
    [
        (["runs/a", "runs/b"], ["a", "b"]),
        (["runs/a", "other/a", "runs/a"], ["a", "a-2", "a-3"]),
        (["runs/a", "runs/a-2", "runs/a"], ["a", "a-2", "a-3"]),
    ],
)
def test_every_member_has_a_name_of_its_own(roots, names):
    assert member_names([Path(root) for root in roots]) == names


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "test"),
        ({"set": "validation", "forced": True}, "validation.forced"),
        ({"source": Path("texts/test.en"), "ban": Path("words")}, "test.en.ban"),
        ({"others": [Path("runs/b"), Path("c/")]}, "test.ensemble-with-b-and-c"),
        ({"others": [Path("runs/b"), Path("c/")], "forced": True}, "test.forced.ensemble-with-b-and-c"),
        ({"others": [Path("runs/b"), Path("c/")], "name": "mine"}, "mine"),
    ],
)
def test_results_are_named_after_what_was_given(given, name):
    none = {"name": None, "set": "test", "source": None, "forced": False, "prefix": None, "require": None, "ban": None}
    assert results_name(Namespace(**none | {"others": []} | given)) == name

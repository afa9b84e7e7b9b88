"""Which runs can translate together, and what they and their results are called."""

from functools import partial
from pathlib import Path

import pytest

from qkv.config.ensemble import check_members, check_members_search, member_names
from qkv.config.run import load_started_run
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from tests.support.tiny_runs import write_stub


@pytest.fixture
def make(tmp_path):
    return partial(write_stub, tmp_path)


def test_runs_of_one_tokenizer_and_other_models_and_seeds_translate_together(make):
    wide = {"model__d_model": 16, "run__seed": 2, "decoding__beam_size": 7}
    check_members([RunDirectory(root) for root in (make("a"), make("b", **wide), make("c", model__max_positions=99))])


def test_other_tokenizers_are_refused_with_both_files_and_the_way_to_one(make):
    a, b, c = make("a"), make("b"), make("c", tokenizer=b"other")
    with pytest.raises(InputError) as refusal:
        check_members([RunDirectory(root) for root in (a, b, c)])
    said = str(refusal.value)
    assert said.startswith(
        f"{a} and {c} have different tokenizers, {a}/tokenizer/sentencepiece.model (SHA-256 7692c3ad"
    )
    assert f" and {c}/tokenizer/sentencepiece.model (SHA-256 d9298a10" in said
    assert f"qkv train --config {a}/config.yaml --run.name NAME --run.seed 2" in said


def test_other_languages_are_refused(make):
    a, b = make("a"), make("b", data__target_language="de")
    with pytest.raises(InputError, match=r"a/config\.yaml and \S*b/config\.yaml have different data\.target_"):
        check_members([RunDirectory(root) for root in (a, b)])


def test_a_search_that_a_further_model_cannot_do_is_refused(make):
    run = make("b", model={"architecture": "recurrent", "cross_attention": "none"})
    config = load_started_run(make("a", decoding__coverage_penalty=0.2) / "config.yaml")
    with pytest.raises(InputError, match=r"b/config\.yaml: decoding\.coverage_penalty: the model has no cross"):
        check_members_search(config, [RunDirectory(run)])
    check_members_search(load_started_run(make("c") / "config.yaml"), [RunDirectory(run)])


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

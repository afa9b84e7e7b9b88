"""Several runs loaded as one."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest

from qkv.commands import translate
from qkv.run.ensemble import TrainedEnsemble, load_runs
from qkv.run.trained_run import TrainedRun
from tests.support import KEPT_RUNS

ROOTS = [KEPT_RUNS / name for name in ("transformer", "decoder_only")]
LINES = ["the cat eats the apple .", "a"]


@pytest.fixture(scope="module")
def ensemble():
    return load_runs(ROOTS)


def test_one_run_is_that_run():
    run = load_runs(ROOTS[:1])
    assert type(run) is TrainedRun and run.directory.root == ROOTS[0]


def test_a_run_that_is_there_twice_is_loaded_once():
    run = load_runs([ROOTS[0], ROOTS[0]])
    first, second = run.model.members
    assert first is second
    assert [*run.members] == ["transformer", "transformer-2"]


def test_settings_are_those_of_the_first_run_and_each_member_has_its_own_model(ensemble):
    assert isinstance(ensemble, TrainedEnsemble)
    assert ensemble.directory.root == ROOTS[0]
    configs = [run.config for run in ensemble.members.values()]
    assert [config.model.architecture for config in configs] == ["transformer", "decoder_only"]
    assert [config.decoding for config in configs] == [ensemble.config.decoding] * 2
    assert [run.model for run in ensemble.members.values()] == ensemble.model.members
    assert [run.directory.root for run in ensemble.members.values()] == ROOTS


def test_sentences_have_as_many_tokens_as_every_model_accepts(monkeypatch):
    """The second model accepts fewer."""
    from qkv.run import ensemble as trained_ensemble

    usual = trained_ensemble.load_run

    def load_run(root, *arguments):
        run = usual(root, *arguments)
        if root == ROOTS[1]:
            short = run.config.model.model_copy(update={"max_positions": 9})
            object.__setattr__(run, "config", run.config.model_copy(update={"model": short}))
        return run

    monkeypatch.setattr(trained_ensemble, "load_run", load_run)
    ensemble = load_runs(ROOTS)
    assert ensemble.config.model.max_positions == ensemble.translator.max_positions == 9
    assert {run.config.model.max_positions for run in ensemble.members.values()} == {9}


@pytest.mark.minutes
def test_the_command_translates_by_the_ensemble(ensemble, monkeypatch, capsysbinary):
    decoding = ensemble.config.decoding.model_copy(update={"beam_size": 1})
    greedy = replace(ensemble, config=ensemble.config.model_copy(update={"decoding": decoding}))
    expected = [one.text for one in greedy.translator.translate(LINES)]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO("\n".join(LINES).encode())))
    assert translate.main([*map(str, ROOTS), "--beam_size", "1"]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines() == expected

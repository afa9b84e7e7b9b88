"""The beam and the length penalty that are chosen on the validation set, and every command that reads them."""

import json
import logging
import os
import re
import shutil

import numpy as np
import pytest

from qkv import api
from qkv.commands import evaluate, export, live, translate
from qkv.commands.cli import read_search
from qkv.config.run import load_trained_run
from qkv.decoding.beam import BeamSettings, beam_search
from qkv.decoding.translator import Translation
from qkv.evaluation import tuning
from qkv.evaluation.request import EvaluationSet
from qkv.evaluation.tuning import best_finished, tune
from qkv.files.run_directory import RunDirectory
from qkv.run.ensemble import load_runs
from qkv.run.trained_run import load_run
from qkv.text.tokens.special_tokens import EOS
from tests.support import KEPT_RUNS
from tests.support.minutes import first_at_once
from tests.support.searches import V, next_of_chain, normalized, words

LONGEST = 9
SENTENCES = 60


def search(chain, most, **settings):
    beam = BeamSettings(**settings)
    state = np.zeros((len(chain), LONGEST), "int32"), np.zeros((), "int32")
    found = beam_search(next_of_chain, chain, state, most, LONGEST, beam)
    return [
        [
            Translation("", [], words(ids), [], words(ids)[-1] != EOS, float(score))
            for ids, score in zip(*row, strict=True)
            if np.isfinite(score)
        ]
        for row in zip(*(np.asarray(x) for x in (found.ids, found.scores)), strict=True)
    ]


@pytest.mark.parametrize(
    "case", first_at_once([(3, {"renormalize": True}), (4, {"force_eos": True, "divisor": "power"})])
)
def test_what_has_finished_in_a_beam_ranked_anew_is_what_each_penalty_finds(case):
    size, settings = case
    logits = np.random.default_rng(3).normal(size=(SENTENCES, V, V)) * 2
    logits[:, :, EOS] += np.linspace(-6, 2, SENTENCES)[:, None]
    chain, most = normalized(logits), np.tile(np.arange(4, LONGEST + 1, dtype="int32"), SENTENCES // 6)
    every = search(chain, most, size=size, best=2 * size - 1, length_penalty=0.0, **settings)
    changed = set()
    for penalty in (0.0, 1.0, 3.0):
        expected = search(chain, most, size=size, best=1, length_penalty=penalty, **settings)
        divisor = BeamSettings(length_penalty=penalty, divisor=settings.get("divisor", "gnmt")).length_divisor
        found = [best_finished(some, np.asarray(divisor(np.arange(LONGEST + 1)))) for some in every]
        assert [one.ids for one in found] == [one.ids for one, *_ in expected]
        changed.add(tuple(map(len, (one.ids for one in found))))
    assert len(changed) == 3 and max(map(len, every)) > size


@pytest.fixture
def run(tmp_path):
    """A copy of a trained run, whose test set is not there."""
    folder = shutil.copytree(KEPT_RUNS / "transformer", tmp_path / "run")
    config = folder / "config.yaml"
    text = config.read_text(encoding="utf-8").replace("data/demo/test.", "data/missing.")
    config.write_text(text.replace("beam_size: 5", "beam_size: 2"), encoding="utf-8")
    return folder


@pytest.mark.minutes
def test_the_highest_bleu_of_validation_is_that_of_searches_of_their_own(run, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "qkv")
    monkeypatch.setattr(tuning, "TRIED_BEAM_SIZES", (3,))
    monkeypatch.setattr(tuning, "PENALTIES", (2.0,))
    monkeypatch.setattr(tuning, "MOST_TUNING_SENTENCES", 8)
    scores, loaded = {}, load_run(run)
    monkeypatch.setattr(tuning, "score_bleu", lambda texts, *_, **__: scores.setdefault(tuple(texts), len(scores)))
    tune(loaded)
    sources = (RunDirectory("data/demo").root / "validation.en").read_text(encoding="utf-8").splitlines()
    sources = sources[:: -(-len(sources) // 8)]
    assert re.search(rf"on {len(sources)} sentences of the validation set", caplog.text)
    assert len(scores) == 4
    decoding = loaded.config.decoding.model_copy(update={"beam_size": 3, "length_penalty": 2.0})
    own = loaded.with_config(loaded.config.model_copy(update={"decoding": decoding}))
    assert tuple(best.text for best, *_ in own.translator.translate_ids(own.tokenizer.encode(sources))) in scores


def stubbed(monkeypatch, scores):
    """Makes the BLEU of each beam and penalty known, and 10 for the others."""

    def translate_all(run, sources, beam, penalties):
        for penalty in penalties:
            yield penalty, [Translation(str(scores.get((beam, penalty), 10.0)), [], [EOS], [0.0], truncated=False)]

    monkeypatch.setattr(tuning, "_translate", translate_all)
    monkeypatch.setattr(tuning, "score_bleu", lambda texts, references, tokenizer: float(texts[0]))


CHOICES = {
    "the highest": ({(10, 1.4): 12.0, (5, 2.0): 11.0}, (10, 1.4)),
    "the run's own among equals": ({(2, 1.0): 12.0, (5, 1.2): 12.0}, None),
    "what differs by less than a tenth is equal": ({(2, 1.0): 12.0, (5, 1.2): 12.04}, None),
    "the smaller beam of others": ({(10, 1.0): 12.0, (5, 3.0): 12.0}, (5, 3.0)),
    "then the penalty nearest to the run's": ({(5, 0.2): 12.0, (5, 1.6): 12.0, (5, 3.0): 12.0}, (5, 1.6)),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice_is_written_unless_the_runs_own_settings_do_as_well(case, run, monkeypatch):
    scores, chosen = CHOICES[case]
    stubbed(monkeypatch, scores)
    file = RunDirectory(run).decoding
    file.write_text("beam_size: 7\n", encoding="utf-8")  # which plays no part
    tune(load_run(run))
    assert file.exists() is (chosen is not None)
    decoding = load_trained_run(RunDirectory(run)).decoding
    assert (decoding.beam_size, decoding.length_penalty) == (chosen or (2, 1.0))


def test_beams_hold_as_many_translations_as_the_run_returns(run, monkeypatch):
    config = run / "config.yaml"
    text = config.read_text(encoding="utf-8").replace("n_best: 1", "n_best: 6").replace("beam_size: 2", "beam_size: 8")
    config.write_text(text, encoding="utf-8")
    stubbed(monkeypatch, {(5, 1.0): 99.0, (10, 1.0): 12.0})
    tune(load_run(run))
    assert load_trained_run(RunDirectory(run)).decoding.beam_size == 10


@pytest.fixture
def tuned(run):
    RunDirectory(run).decoding.write_text("beam_size: 3\nlength_penalty: 1.8\n", encoding="utf-8")
    return run


@pytest.mark.minutes
def test_every_reader_takes_what_was_chosen_and_options_win(tuned, tmp_path):
    def of(config):
        return config.decoding.beam_size, config.decoding.length_penalty

    assert of(load_run(tuned).config) == of(api.load(tuned).config) == (3, 1.8)
    plain = shutil.copytree(KEPT_RUNS / "transformer", tmp_path / "plain")
    assert of(load_runs([tuned, plain]).config) == (3, 1.8)
    assert of(load_runs([plain, tuned]).config) == (5, 1.0)
    for command in (evaluate, translate):
        options = command.make_parser().parse_args([str(tuned)])
        assert of(read_search(options)) == (3, 1.8)
        options = command.make_parser().parse_args([str(tuned), "--length_penalty", "0.5"])
        assert of(read_search(options)) == (3, 0.5)
    place = tmp_path / "exported"
    assert export.main([str(tuned), str(place), "--format", "ctranslate2", "--sentences", "0"]) == 0
    decoding = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["decoding"]
    assert (decoding["beam_size"], decoding["length_penalty"]) == (3, 1.8)


WRONG = {
    "a word": ("beam_size: wide", r"decoding.beam_size: expected an integer .*, found 'wide' \(\S+decoding\.yaml\)"),
    "out of range": ("length_penalty: 7", r"decoding.length_penalty: expected .* <= 5, found 7"),
    "another setting": ("tag: <de>", r"decoding.yaml: expected beam_size and length_penalty, .*, found tag; delete"),
    "a list": ("- 3", r"decoding\.yaml"),
    "no YAML": ("a: [", r"decoding\.yaml"),
    "nothing": ("", r"decoding\.yaml"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_damaged_file_is_refused_in_one_message_by_each_command(case, tuned, capsys):
    content, expected = WRONG[case]
    RunDirectory(tuned).decoding.write_text(content, encoding="utf-8")
    for command in (evaluate, translate, live):
        assert command.main([str(tuned)]) == 2
        said = capsys.readouterr().err
        assert re.match(rf"(?s)error: .*{expected}", said) and f"evaluate {tuned} --tune off deletes" in said


def test_a_folder_in_its_place_is_refused_in_one_message(run, capsys):
    RunDirectory(run).decoding.mkdir()
    for options in ([], ["--tune"], ["--tune", "off"]):
        assert evaluate.main([str(run), *options]) == 2
        assert f"{RunDirectory(run).decoding}: this is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("choice", ["on", "off"])
def test_a_run_that_is_read_only_is_refused_before_the_search(choice, tuned, monkeypatch, capsys):
    monkeypatch.setattr("qkv.commands.cli.importing_tensorflow", None)
    monkeypatch.setattr(os, "access", lambda path, mode, **how: mode == os.R_OK)
    assert evaluate.main([str(tuned), "--tune", choice]) == 2
    assert f"{RunDirectory(tuned).decoding}: cannot be created: {tuned} is read-only" in capsys.readouterr().err


def test_off_deletes_the_choice_whatever_it_holds_but_not_if_the_command_is_refused(tuned, capsys, monkeypatch):
    def evaluate_set(request):
        decoding = request.run.config.decoding
        assert (decoding.beam_size, decoding.length_penalty) == (2, 1.0) and not RunDirectory(tuned).decoding.exists()
        return {"sentences": 1, "truncated": 0}

    monkeypatch.setattr("qkv.evaluation.evaluate_set.evaluate_set", evaluate_set)
    RunDirectory(tuned).decoding.write_text("a: [", encoding="utf-8")
    off = [str(tuned), "--tune", "off"]
    for wrong in ([], ["--name", ".."], ["--set", "validation", "--beam_size", "0"]):  # the test set is missing
        assert evaluate.main([*off, *wrong]) == 2 and RunDirectory(tuned).decoding.exists()
    assert re.search("missing.en.*error.*--name.*error.*beam_size", capsys.readouterr().err, re.DOTALL)
    assert evaluate.main([*off, "--set", "validation"]) == 0


REFUSED = {
    "a beam that is given": (["--tune", "--beam_size", "3"], "--beam_size: --tune chooses this setting"),
    "sampling": (["--tune", "--search", "sampling"], "--tune: needs beam search, but decoding.search is sampling"),
    "another word": (["--tune", "twice"], "expected one of on, off, found 'twice'"),
    "two runs": ([str(KEPT_RUNS / "transformer"), "--tune", "off"], "--tune: chooses settings for one run"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_tuned_is_refused(case, tuned, monkeypatch, capsys):
    monkeypatch.setattr("qkv.commands.cli.importing_tensorflow", None)
    options, expected = REFUSED[case]
    assert evaluate.main([str(tuned), *options]) == 2
    assert expected in capsys.readouterr().err and RunDirectory(tuned).decoding.exists()


def test_evaluate_tunes_then_translates_so_and_says_where_the_search_is_from(run, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "qkv")
    stubbed(monkeypatch, {(5, 2.2): 12.0})
    searched = []

    def evaluate_set(request):
        decoding = request.run.config.decoding
        searched.append((decoding.beam_size, decoding.length_penalty))
        return {"sentences": 1, "truncated": 0, "brevity_penalty": 0.8}

    monkeypatch.setattr("qkv.evaluation.evaluate_set.evaluate_set", evaluate_set)
    given = ["--set", "validation"]
    assert evaluate.main([str(run), *given]) == 0
    assert "translations are short (brevity penalty 0.800); choose a length penalty" in caplog.text
    assert f"evaluate {run} --tune" in caplog.text
    caplog.clear()
    assert evaluate.main([str(run), *given, "--tune"]) == 0
    assert f"search: beam_size 5, length_penalty 2.2, from {run / 'decoding.yaml'}" in caplog.text
    assert "translations are short" not in caplog.text
    caplog.clear()
    assert evaluate.main([str(run), *given, "--beam_size", "1"]) == 0
    assert "search:" not in caplog.text
    assert evaluate.main([str(run), *given, "--tune", "off"]) == 0
    assert searched == [(2, 1.0), (5, 2.2), (1, 2.2), (2, 1.0)]
    stubbed(monkeypatch, {})
    caplog.clear()
    assert evaluate.main([str(run), *given, "--tune"]) == 0
    assert "translations are short" not in caplog.text  # it has just been tuned


def test_long_sets_are_thinned_evenly(run, monkeypatch):
    seen = []
    monkeypatch.setattr(tuning, "_translate", lambda run, sources, *_: seen.append(sources) or [(1.0, [])])
    monkeypatch.setattr(tuning, "score_bleu", lambda *_, **__: 1.0)
    monkeypatch.setattr(tuning, "MOST_TUNING_SENTENCES", 3)
    lines = list("abcdefgh")
    monkeypatch.setattr(tuning, "read_configured_set", lambda *_: EvaluationSet("validation", lines, lines))
    tune(load_run(run))
    assert seen == [["a", "d", "g"]] * 3

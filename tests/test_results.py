"""The results of a run's methods: plain data of Python, and short when they are printed."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import qkv
from qkv.results import Evaluation, Translated, TranslatedText

SOURCES = ["the cat eats the apple .", "", "a dog sees the old church ."]
TARGETS = ["le chat mange la pomme .", "", "un chien voit la vieille église ."]
PLAIN = (str, int, float, bool, type(None))


@pytest.fixture(scope="module")
def run(unbroken, tmp_path_factory):
    """A copy, into which evaluations are written."""
    return qkv.load(shutil.copytree(unbroken, tmp_path_factory.mktemp("run") / "unbroken"))


@pytest.fixture(scope="module")
def evaluations(run, tmp_path_factory):
    """An evaluation with references and links, and one without."""
    folder = tmp_path_factory.mktemp("text")
    texts = {"source": SOURCES, "reference": TARGETS, "alignments": ["0-0 1-1", "", "0-0"]}
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    scored = run.evaluate(**{name: folder / name for name in texts}, name="scored")
    return scored, run.evaluate(source=folder / "source", name="unscored")


def check_plain(value, place):
    """Asserts that a value consists of Python's own types, down to the last element."""
    if type(value) in (list, tuple):
        for index, element in enumerate(value):
            check_plain(element, f"{place}[{index}]")
    elif type(value) is dict:
        for key, element in value.items():
            check_plain(key, f"{place}, key {key}")
            check_plain(element, f"{place}[{key!r}]")
    else:
        assert type(value) in PLAIN, f"{place}: {type(value)}"


SEARCHES = [
    {},
    {"beam_size": 3, "n_best": 2},
    {"search": "sampling", "seed": 1, "top_k": 5},
    {"beam_size": 2, "length_penalty": 0.6, "coverage_penalty": 0.2},
    {"split": True},
]


@pytest.mark.parametrize("settings", SEARCHES, ids=str)
def test_translations_are_plain_data_that_json_writes(run, settings):
    if "split" in settings:
        pytest.importorskip("sentencex")
    for results in (run.translate(SOURCES, **settings), [run.translate(SOURCES[0], **settings)]):
        for index, result in enumerate(results):
            for translation in result if isinstance(result, list) else [result]:
                values = dataclasses.asdict(translation)
                check_plain(values, f"translations[{index}]")
                if isinstance(translation, Translated):  # also of an empty sentence
                    assert {type(translation.log_probability), type(translation.score)} == {float}
                assert json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize("at", [None, "0,0,output"])
def test_links_are_numbers_of_python(run, at):
    for links in (run.align(SOURCES, TARGETS, at=at), [run.align(SOURCES[0], TARGETS[0], at=at)]):
        check_plain(links, "links")


def test_metrics_are_what_the_file_holds(evaluations):
    for evaluation in evaluations:
        check_plain(evaluation.metrics, "metrics")
        assert evaluation.metrics == json.loads((evaluation.path / "metrics.json").read_text(encoding="utf-8"))


def test_history_has_columns_of_numbers_and_words(run):
    assert len(run.history) > 0
    assert all(column.dtype.kind in "iufbOU" for _, column in run.history.items())


def test_what_is_read_inside_has_arrays_of_numpy_and_plain_lists(run):
    (inside,) = run.cache([SOURCES[0]])
    assert all(type(array) is np.ndarray for array in inside.arrays.values())
    check_plain([inside.source_tokens, inside.target_input_tokens, inside.target_output_tokens], "tokens")


def test_results_show_what_they_hold_on_one_line(run, evaluations):
    translation = run.translate(SOURCES[0])
    scored, unscored = evaluations
    assert repr(run) == f"<Run {run.path}: en to fr, Transformer of {run.model.count_params():,} parameters>"
    assert repr(run.trained).startswith(f"<TrainedRun {run.path}: Transformer with model.keras, <Tokenizer: ")
    assert repr(translation).startswith(f"<Translated {translation.text!r}, log-probability -")
    text = "a\nb " * 50
    assert repr(TranslatedText([translation] * 2, text)) == f"<TranslatedText {text[:59] + '…'!r}, 2 sentences>"
    scores = f"BLEU {scored.metrics['bleu']:.1f}, chrF {scored.metrics['chrf']:.1f}"
    assert repr(scored) == f"<Evaluation {scored.path}: 3 sentences, {scores}>"
    assert repr(unscored) == f"<Evaluation {unscored.path}: 3 sentences, no references>"
    for result in (run, run.trained, translation, scored, unscored):
        assert "\n" not in repr(result) and len(repr(result)) < 300


def test_no_repr_computes_or_reads(run, evaluations, monkeypatch):
    """The attention of a translation and the archive of an evaluation are read when they are asked for."""
    translation, evaluation = run.translate(SOURCES[0]), Evaluation(evaluations[0].path, evaluations[0].metrics)
    monkeypatch.setattr("builtins.open", None)
    shown = repr([run, run.trained, translation, evaluation])
    assert shown.count("<") >= 4
    assert not {"attention", "archive", "scores"} & {*vars(translation), *vars(evaluation)}


def test_a_translation_made_by_hand_is_shown_as_well():
    made = Translated("a", "b", ["b"], [-0.5], -0.5, -0.5, False)
    assert repr(made) == "<Translated 'b', log-probability -0.500>"

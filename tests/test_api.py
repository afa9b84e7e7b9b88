"""A run from Python does what the commands do."""

import math
import shutil

import numpy as np
import pytest

import qkv
from qkv.commands import align as align_command
from qkv.run.trained_run import load_run

SOURCES = ["the cat eats the apple .", "", "a dog sees the old church ."]
TARGETS = ["le chat mange la pomme .", "", "un chien voit la vieille église ."]


@pytest.fixture(scope="module")
def run(unbroken):
    return qkv.load(str(unbroken))


@pytest.fixture(scope="module")
def own(unbroken, tmp_path_factory):
    """A copy that tests may write into."""
    return qkv.load(shutil.copytree(unbroken, tmp_path_factory.mktemp("own") / "unbroken"))


class TestTranslate:
    def test_one_sentence_gives_one_translation_and_a_list_a_list(self, run):
        expected = load_run(run.path).translator.translate(SOURCES)
        found = run.translate(SOURCES)
        assert [one.text for one in found] == [one.text for one in expected]
        assert [one.log_probabilities for one in found] == [one.log_probabilities for one in expected]
        one = run.translate(SOURCES[0])
        assert (str(one), one.source) == (expected[0].text, SOURCES[0])
        assert one.log_probability == pytest.approx(sum(expected[0].log_probabilities))
        assert len(one.tokens) == len(one.log_probabilities) > 0

    def test_the_best_ones_come_as_lists(self, run):
        found = run.translate(SOURCES[:1], beam_size=4, n_best=3)
        assert [len(some) for some in found] == [3]
        scores = [one.score for one in found[0]]
        assert scores == sorted(scores, reverse=True)
        assert [one.text for one in run.translate(SOURCES[0], n_best=3, beam_size=4)] == [one.text for one in found[0]]

    def test_a_search_is_traced_once_for_its_settings(self, run):
        run.translate(SOURCES[0], beam_size=4, n_best=3)
        assert run._with({"beam_size": 4, "n_best": 3}) is run._with({"n_best": 3, "beam_size": 4})
        default = run.config.decoding.length_penalty
        assert run._with({"beam_size": 4}) is run._with({"beam_size": 4, "length_penalty": default})
        assert run._with({"beam_size": 4}) is not run._with({"beam_size": 3})
        assert run._with({}) is run.trained

    @pytest.mark.parametrize(
        ("sentences", "decoding", "told"),
        [
            ("a", {"beam_sise": 2}, r"decoding.beam_sise: no such key; did you mean decoding.beam_size\?"),
            ("a", {"beam_size": "two"}, "decoding.beam_size: expected an integer >= 1 and <= 1000, found 'two'$"),
            ("a", {"beam_size": 2, "n_best": 3}, r"n_best \(3\) can be at most beam_size \(2\)"),
            ("a\nb", {}, "has several lines; expected one sentence"),
            (["a", 1], {}, "sentence:2: expected text, found 1"),
            (None, {}, "sentences: expected a sentence or a list of sentences, found None"),
        ],
    )
    def test_mistakes_are_named(self, run, sentences, decoding, told):
        with pytest.raises(qkv.InputError, match=told):
            run.translate(sentences, **decoding)

    def test_a_notebook_shows_text_and_heat_map(self, run):
        one = run.translate(SOURCES[0])
        shown = one._repr_html_()
        assert shown.count("<td") == len(one.tokens) * one.attention.to_numpy().shape[-1]
        assert f"{one.log_probability:.2f}" in shown


class TestAlign:
    def test_links_are_what_the_command_writes(self, run, tmp_path):
        for name, lines in (("source", SOURCES), ("target", TARGETS)):
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
        assert align_command.main([str(run.path), *files, "--output", str(tmp_path / "links")]) == 0
        found = run.align(SOURCES, TARGETS)
        lines = [" ".join(f"{i}-{j}" for i, j in links) for links in found]
        assert lines == (tmp_path / "links").read_text().splitlines()
        assert run.align(SOURCES[0], TARGETS[0]).keys() == found[0].keys() != set()

    def test_without_calibration_links_have_no_probabilities(self, run):
        links = run.align(SOURCES[0], TARGETS[0], at="0,mean,output")
        assert links
        assert all(map(math.isnan, links.values()))

    @pytest.mark.parametrize(
        ("sources", "targets", "told"),
        [
            (SOURCES, TARGETS[:2], "targets: expected one for each of 3 sources, found 2"),
            (SOURCES[0], TARGETS[:1], "give two sentences, or two lists"),
            (SOURCES, 7, "targets: expected a sentence or a list of sentences, found 7"),
        ],
    )
    def test_mistakes_are_named(self, run, sources, targets, told):
        with pytest.raises(qkv.InputError, match=told):
            run.align(sources, targets)

    def test_a_place_that_is_not_there_is_refused(self, run):
        with pytest.raises(qkv.InputError, match="layers of"):
            run.align("a", "b", at="9,0,output")


class TestEvaluate:
    def test_scores_have_intervals_and_the_archive_holds_what_translations_show(self, own):
        evaluation = own.evaluate()
        assert evaluation.path == own.path / "evaluations" / "test"
        assert evaluation.scores.loc["BLEU", "value"] == pytest.approx(evaluation.metrics["bleu"])
        assert (evaluation.scores["±"] >= 0).all() and "AER" in evaluation.scores.index
        assert "BLEU" in evaluation._repr_html_()
        record = evaluation.archive[3]
        again = own.translate(record.source).attention
        assert again.hypothesis == record.hypothesis
        np.testing.assert_allclose(again.to_numpy(), record.to_numpy(), atol=1e-6)

    def test_text_of_ones_own_is_evaluated_under_its_name(self, own, tmp_path):
        source = tmp_path / "mine.en"
        source.write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
        evaluation = own.evaluate(source=source)
        assert (evaluation.path.name, len(evaluation.archive)) == ("mine.en", 3)
        assert evaluation.scores.empty and "mine.en" in evaluation._repr_html_()

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"set_name": "tset"}, r"set_name: expected test or validation, found 'tset'; did you mean test\?"),
            ({"reference": "a"}, "reference: needs source"),
            ({"set_name": "test", "source": "a"}, "expected no name of a set beside source"),
            ({"source": "nowhere.en"}, "nowhere.en"),
            ({"name": "a/b"}, "name: "),
            ({"beam_sise": 1}, "did you mean decoding.beam_size"),
        ],
    )
    def test_mistakes_are_named(self, own, given, told):
        with pytest.raises(qkv.InputError, match=told):
            own.evaluate(**given)


@pytest.mark.parametrize("path", ["no/such/run", "."])
def test_what_is_no_run_is_not_loaded(path):
    with pytest.raises(qkv.InputError):
        qkv.load(path)


def test_a_checkpoint_is_best_or_last(unbroken):
    with pytest.raises(qkv.InputError, match="checkpoint: expected best or last, found 'first'"):
        qkv.load(unbroken, "first")
    assert qkv.load(unbroken, "last").trained.weights.suffix == ".npz"

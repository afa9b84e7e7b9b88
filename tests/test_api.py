"""A run from Python does what the commands do."""

import copy
import dataclasses
import json
import logging
import math
import os
import pickle
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from weakref import ref

import keras
import numpy as np
import pandas as pd
import pytest
import yaml

import qkv
from qkv import api
from qkv.commands import align as align_command
from qkv.commands import export as export_command
from qkv.exchange import parity
from qkv.inspection.viewer.page import WITHOUT_LIST_STYLE
from qkv.training.callbacks.progress_line import ProgressLine
from qkv.training.progress import Progress
from qkv.training.stopping import Limits
from tests.support import KEPT_RUNS, ROOT, files_below
from tests.support.marian import MARIAN
from tests.support.minutes import by_hand
from tests.support.tiny_runs import small_settings, write_small_corpus
from tests.support.viewer import embedded

pytestmark = pytest.mark.slow

SOURCES = ["the cat eats the apple .", "", "a dog sees the old church ."]
TARGETS = ["le chat mange la pomme .", "", "un chien voit la vieille église ."]


@pytest.fixture(scope="module")
def run(unbroken, tmp_path_factory):
    """A copy, since the first alignment keeps its choice in the run."""
    return qkv.load(str(shutil.copytree(unbroken, tmp_path_factory.mktemp("run") / "unbroken")))


@pytest.fixture(scope="module")
def own(unbroken, tmp_path_factory):
    """A copy that tests may write into."""
    return qkv.load(shutil.copytree(unbroken, tmp_path_factory.mktemp("own") / "unbroken"))


class TestTranslate:
    def test_one_sentence_gives_one_translation_and_a_list_a_list(self, run):
        expected = run.trained.translator.translate(SOURCES)
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

    def test_a_text_is_translated_sentence_by_sentence(self, run):
        sentences = ["the cat sleeps .", "a dog eats .", "", "a dog eats ."]
        one, other = (run.translate(sentence).text for sentence in sentences[:2])
        text = "the cat sleeps .  a dog eats .\n\na dog eats ."
        found = run.translate(text, split=True)
        assert str(found) == found.text == f"{one}  {other}\n\n{other}"
        assert [sentence.source for sentence in found.sentences] == sentences
        assert [str(each) for each in run.translate([text, "a dog eats ."], split=True)] == [found.text, other]
        with pytest.raises(qkv.InputError, match="n_best: a text is joined"):
            run.translate(text, split=True, n_best=2)

    def test_lines_of_a_text_are_read_like_sentences(self, run, caplog):
        plain = run.translate("the cat sleeps .  a dog eats .\na dog .", split=True)
        found = run.translate("  \ufeffthe c\xadat sleeps .\u200b  a dog eats .\r\na dog .", split=True)
        assert found.text == plain.text and [one.source for one in found.sentences] == [
            "the cat sleeps .",
            "a dog eats .",
            "a dog .",
        ]
        assert ["left out: U+00AD (1), U+200B (1), U+FEFF (1)" in message for message in caplog.messages] == [True]
        for text, told in (("a\n\ud800", "half a character"), ("a\0 .", "character 2 is NUL")):
            with pytest.raises(qkv.InputError, match=told):
                run.translate(text, split=True)

    def test_draws_go_on_however_many_other_settings_come_between(self, run):
        def draw(seed, run=run):
            return run.translate(SOURCES[0], search="sampling", seed=seed).log_probabilities

        drawn = [draw(41), draw(41)]
        for number in range(api.MOST_VARIANTS + 1):
            draw(100 + number)
        drawn.append(draw(41))
        copy = api.Run(run.trained)
        assert [draw(41, copy) for _ in range(3)] == drawn and drawn[0] != drawn[1] != drawn[2]

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
            (["a", 1], {}, "sentences:2: expected text, found 1$"),
            (None, {}, "sentences: expected a sentence or a list of sentences, found None"),
            ({"a": "b"}, {}, r"found a dictionary: give list\(d.values\(\)\), or one value"),
            (pd.DataFrame({"source": ["a"]}), {}, r"found a DataFrame: give one column, such as frame\['COLUMN'\]"),
            ({"a", "b"}, {}, r"found a set, which has no order: give sorted\(s\)"),
            (b"a", {}, r"found bytes: give text, such as b.decode\(\)"),
            (np.array("a"), {}, r"list of sentences, found array\('a'"),
            (["a", None], {}, "sentences:2: expected text, found None$"),
            (pd.Series([None, 5, "a"]), {}, "sentences:2: expected text, found 5$"),
            (pd.Series(["a", None, 5]), {"split": True}, "sentences:3: expected text, found 5$"),
            ("a", {"n_best": True}, "^decoding.n_best: expected an integer >= 1 and <= 1000, found true$"),
        ],
    )
    def test_mistakes_are_named(self, run, sentences, decoding, told):
        with pytest.raises(qkv.InputError, match=told):
            run.translate(sentences, **decoding)

    def test_sentences_come_from_any_ordered_container_of_texts(self, run):
        expected = [one.text for one in run.translate(SOURCES)]
        series = pd.Series(SOURCES, index=["x", "y", "z"])
        for sentences in (series, series.astype("category"), pd.Index(SOURCES), np.array(SOURCES), iter(SOURCES)):
            assert [one.text for one in run.translate(sentences)] == expected
        assert run.align(series, pd.Series(TARGETS)) == run.align(SOURCES, TARGETS)

    def test_a_series_gives_a_series_in_which_missing_values_stay(self, run):
        expected = [one.text for one in run.translate(SOURCES)]
        for dtype, missing in ((object, None), (object, math.nan), ("string", pd.NA), (None, math.nan)):
            series = pd.Series([SOURCES[0], missing, *SOURCES[1:]], [3, 3, "x", 0], dtype, "en")
            found = run.translate(series)
            assert found.index.equals(series.index) and found.name == "en"
            assert found.isna().tolist() == [False, True, False, False]
            assert [one.text for one in found.dropna()] == expected
            text = found.astype("string")
            assert text.isna().tolist() == [False, True, False, False] and text.dropna().tolist() == expected
            frame = series.to_frame("en").assign(translation=found.map(str, na_action="ignore"))
            assert frame["translation"].dropna().tolist() == expected
        best = run.translate(series, n_best=2, beam_size=2)
        assert [*map(len, best.dropna())] == [*map(len, run.translate(SOURCES, n_best=2, beam_size=2))]
        texts = run.translate(series, split=True)
        assert texts.dropna().map(str).tolist() == expected
        assert run.translate(pd.Series([None, None], dtype=object)).isna().all()
        assert run.translate(series[:0]).empty

    def test_results_are_pickled_copied_and_made_dictionaries_without_their_run(self, run):
        text = run.translate("the cat sleeps . a dog eats .", split=True)
        for result in (text, text.sentences[0]):
            names = [field.name for field in dataclasses.fields(result)]
            again = pickle.loads(pickle.dumps(result))
            assert type(again) is type(result) and repr(again) == repr(result)
            assert set(dataclasses.asdict(result)) == set(names)
            json.dumps(dataclasses.asdict(again))
            assert dataclasses.asdict(again) == dataclasses.asdict(result)
        assert len(pickle.dumps(text)) < 2000

    def test_attention_is_in_a_pickle_if_it_was_read_and_in_a_copy_in_any_case(self, run):
        one = run.translate(SOURCES[0])
        pickled = pickle.loads(pickle.dumps(one))
        with pytest.raises(qkv.InputError, match=r"has no run to read it with.*; ask for it before pickling"):
            pickled.attention  # noqa: B018
        assert "<td" not in pickled._repr_html_() and one.text in pickled._repr_html_()
        weights = copy.deepcopy(one).attention.to_numpy()
        assert one._origin.run is run.trained  # the copy shares it
        np.testing.assert_array_equal(one.attention.to_numpy(), weights)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).attention.to_numpy(), weights)

    @pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
    def test_a_run_is_loaded_again_instead_of_copied(self, run, copied):
        for whole in (run, run.trained, [run]):
            with pytest.raises(qkv.InputError, match=r"cannot be pickled or deep-copied; load it again.*qkv\.load\('"):
                copied(whole)

    def test_a_notebook_shows_text_and_heat_map(self, run):
        one = run.translate(SOURCES[0])
        shown = one._repr_html_()
        assert shown.count("<td") == len(one.tokens) * one.attention.to_numpy().shape[-1]
        assert f"{one.log_probability:.2f}" in shown


class TestShow:
    def test_the_page_has_the_translation_and_its_attention_and_needs_no_other_file(self, run, tmp_path):
        page = run.show(SOURCES[0])
        data, weights = embedded(page.html)
        (sentence,) = data["runs"][0]["sentences"]
        translated = run.translate(SOURCES[0])
        assert (sentence["sourceText"], sentence["hypothesis"]) == (SOURCES[0], translated.text)
        shown = np.concatenate([array.ravel() for array in translated.attention.attention.values()])
        np.testing.assert_allclose(weights, shown, atol=1e-5)
        assert (
            repr(page) == str(page) == f"<InlinePage: {len(page.html.encode()) / 1000:.0f} kB of HTML, 900 pixels high>"
        )
        page.save(tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
        assert pickle.loads(pickle.dumps(page)) == page

    def test_targets_are_read_and_settings_of_the_search_used(self, run):
        (forced,) = embedded(run.show(SOURCES[2], TARGETS[2]).html)[0]["runs"][0]["sentences"]
        assert (forced["mode"], forced["hypothesis"], forced["reference"]) == ("forced", TARGETS[2], None)
        record = next(run.trained.recorder(["cross"]).record_references([SOURCES[2]], [TARGETS[2]]))
        np.testing.assert_allclose(forced["logProbabilities"], record.token_log_probabilities, atol=1e-3)
        (beam,) = embedded(run.show(SOURCES[2], beam_size=3).html)[0]["runs"][0]["sentences"]
        assert (beam["mode"], beam["hypothesis"]) == ("beam", run.translate(SOURCES[2], beam_size=3).text)

    def test_several_sentences_have_a_list_and_cost_little_more_than_one(self, run):
        one, several = run.show(SOURCES[:1]), run.show(SOURCES, TARGETS, height=500)
        assert len(embedded(several.html)[0]["runs"][0]["sentences"]) == len(SOURCES)
        assert (several.height, one.height) == (500, 900)
        assert WITHOUT_LIST_STYLE in one.html and WITHOUT_LIST_STYLE not in several.html
        assert len(one._repr_html_()) < 155_000  # of the notebook's file
        assert len(several._repr_html_()) - len(one._repr_html_()) < 5_000 * len(SOURCES)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (([],), "sentences: expected at least one, found none"),
            ((["a", "b"], "c"), "target: expected one for each of 2 sources, found 1"),
            (("a", ["b"]), "target: expected one for each of 1 sources, found 1; give two sentences, or two lists"),
            ((7,), "sentences: expected a sentence or a list of sentences, found 7"),
            (("a\nb",), "has several lines"),
        ],
    )
    def test_mistakes_are_named(self, run, tmp_path, arguments, told):
        with pytest.raises(qkv.InputError, match=told):
            run.show(*arguments)

    @pytest.mark.parametrize("height", [0, -5, 1.5, "900", True, None])
    def test_a_height_is_a_number_of_pixels(self, run, height):
        with pytest.raises(qkv.InputError, match="height: expected a number of pixels above 0, found"):
            run.show("a", height=height)

    @pytest.mark.parametrize("path", ["page.htm", "page", 7])
    def test_a_page_is_saved_as_html_alone(self, run, tmp_path, monkeypatch, path):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(qkv.InputError, match="path: expected"):
            run.show("a").save(path)
        assert [*tmp_path.iterdir()] == []


class TestExplain:
    def test_parts_of_a_logit_sum_to_it(self, run):
        pair = SOURCES[2], TARGETS[2]
        (inside,) = run.cache([pair], ["logits"])
        table = run.explain_logit(pair, row=2)
        _, predicted = run.read_ids(pair)
        assert table["logit"].sum() == pytest.approx(float(inside.logits[2, predicted[2]]), rel=1e-4, abs=1e-4)
        assert [*table.columns] == ["part", "layer", "head", "source", "logit", "difference"]
        assert table["source"].max() == len(inside.source_tokens) - 1

    @pytest.mark.parametrize("row", [-1, 99, "1", True, None])
    def test_a_row_is_the_position_of_a_token(self, run, row):
        with pytest.raises(qkv.InputError, match="row: expected a number from 0 to"):
            run.explain_logit((SOURCES[0], TARGETS[0]), row=row)

    def test_results_are_one_line_plain_data_and_pickled(self, run):
        pair = SOURCES[0], TARGETS[0]
        (inside,) = run.cache([pair], ["*.weights"])
        parts = run.explain(pair, "decoder.0.cross", head=1, row=0)
        for value, fields in ((inside, inside._asdict()), (parts, dataclasses.asdict(parts))):
            assert repr(value) == str(value) and "\n" not in repr(value) and len(repr(value)) < 200
            copied = pickle.loads(pickle.dumps(value))
            assert repr(copied) == repr(value) and type(copied) is type(value) and len(fields) >= 6
        assert f"{len(inside.source_tokens)} source tokens" in repr(inside) and "arrays of" in repr(inside)
        assert repr(parts).startswith("<ScoreParts of decoder.0.cross, head 1, row 0, '<s>': ")

    def test_weights_have_a_row_for_each_head(self, run):
        table = run.weights()
        model = run.config.model
        layers = model.encoder_layers + 2 * model.decoder_layers
        assert len(table) == layers * model.num_heads and set(table["site"]) == {"encoder", "decoder", "cross"}


class TestAlign:
    def test_links_are_what_the_command_writes(self, own, tmp_path, capsys):
        run = own
        for name, lines in (("source", SOURCES), ("target", TARGETS)):
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
        assert align_command.main([str(run.path), *files]) == 0
        written = capsys.readouterr().out.splitlines()
        found = run.align(SOURCES, TARGETS)
        lines = [" ".join(f"{i}-{j}" for i, j in links) for links in found]
        assert lines == written
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
            (pd.DataFrame({"a": SOURCES}), TARGETS, "sources: .* found a DataFrame: give one column"),
            (SOURCES[:1], [5], "targets:1: expected text, found 5"),
        ],
    )
    def test_mistakes_are_named(self, run, sources, targets, told):
        with pytest.raises(qkv.InputError, match=told):
            run.align(sources, targets)

    def test_a_place_that_is_not_there_is_refused(self, run):
        with pytest.raises(qkv.InputError, match="layers of"):
            run.align("a", "b", at="9,0,output")

    @pytest.mark.parametrize("at", [5, (0, "mean", "output"), [0], b"0"])
    def test_a_place_is_text(self, run, at):
        with pytest.raises(qkv.InputError, match=r"^at: expected text such as '1,mean,output', found "):
            run.align("a", "b", at=at)


class TestEvaluate:
    @pytest.mark.minutes
    def test_scores_have_intervals_and_the_archive_holds_what_translations_show(self, own):
        evaluation = own.evaluate()
        assert evaluation.path == own.path / "evaluations" / "test"
        score = evaluation.metrics["bleu"]
        assert repr(evaluation).startswith(
            f"<Evaluation {evaluation.path}: {len(evaluation.archive)} sentences, BLEU {score:.1f}"
        )
        assert repr(evaluation.archive).startswith(f"<AttentionArchive {evaluation.path / 'attention'}: ")
        assert repr(pickle.loads(pickle.dumps(evaluation))) == repr(evaluation)
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

    @pytest.mark.minutes
    def test_sentences_in_memory_are_evaluated_like_those_of_files(self, own, tmp_path):
        texts = {"source": SOURCES, "reference": TARGETS, "alignments": ["0-0 1-1", "", "0-0 1-1 5-6"]}
        for key, lines in texts.items():
            (tmp_path / key).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        of_files = own.evaluate(**{key: tmp_path / key for key in texts}, name="files")
        links = [[(0, 0), (1, 1)], [], [(5, 6), (0, 0), (1, 1)]]
        of_memory = own.evaluate(source=pd.Series(SOURCES), reference=np.array(TARGETS), alignments=links)
        assert of_memory.path.name == "memory" and "AER" in of_memory.scores.index
        files, memory = (files_below(evaluation.path) for evaluation in (of_files, of_memory))
        assert files.keys() == memory.keys()
        other = [name for name in files if files[name] != memory[name]]
        assert set(other) <= {
            "metrics.json",
            "viewer.html",
            ".written",
            "link_calibration.json",
            "attention/manifest.json",
        }
        renamed = json.loads(json.dumps(of_memory.metrics).replace('"memory"', '"source"'))
        for key, value in (of_files.metrics | {"name": "source"}).items():
            assert renamed[key] == value or key.endswith("seconds"), key
        mixed = own.evaluate(source=iter(SOURCES), reference=tmp_path / "reference", alignments=tmp_path / "alignments")
        assert mixed.path.name == "memory" and mixed.metrics["bleu"] == of_memory.metrics["bleu"]

    def test_links_of_ones_own_may_count_from_one(self, own, tmp_path):
        texts = {"source": SOURCES[:1], "reference": TARGETS[:1], "alignments": ["1-1 2-2 3-3 4-4 5-5 6-6"]}
        for key, lines in texts.items():
            (tmp_path / key).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files = {key: tmp_path / key for key in texts}
        with pytest.raises(qkv.InputError, match=r"alignments:1, of 6 and 6 words: .* \(first_index=1 from Python\)"):
            own.evaluate(**files, name="linked")
        assert "AER" in own.evaluate(**files, first_index=1, name="linked").scores.index

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"set_name": "tset"}, r"set_name: expected test or validation, found 'tset'; did you mean test\?"),
            ({"reference": "a"}, "reference: needs source"),
            ({"source": "README.md", "alignments": "a"}, "alignments: needs source and reference"),
            ({"first_index": 2}, "first_index: expected 0 or 1, found 2"),
            ({"set_name": "test", "source": "a"}, "expected no name of a set beside source"),
            ({"source": "nowhere.en"}, "nowhere.en"),
            ({"name": "a/b"}, "name: "),
            ({"beam_sise": 1}, "did you mean decoding.beam_size"),
            ({"source": ["a\nb"]}, "source:1: 'a.*has several lines; expected one sentence"),
            ({"source": pd.Series(["a", None])}, "source:2: expected text, found .*dropna"),
            ({"source": []}, "source: expected at least one sentence, found none"),
            ({"source": SOURCES, "reference": TARGETS[:2]}, "reference: expected one for each of 3 sources, found 2"),
            (
                {"source": SOURCES, "reference": TARGETS, "alignments": ["0-0", "", [(0, -1)]]},
                r"alignments:3: expected word links, text such as '0-0 1-2' or a list of pairs .*, found \[\(0, -1\)\]",
            ),
            ({"source": SOURCES, "reference": TARGETS, "alignments": ["0-0"]}, "alignments: 1 lines of alignments for"),
            ({"source": 5}, "source: expected the path of a text file"),
            ({"source": "README.md", "reference": ["a"]}, "reference: expected one for each of .* sources, found 1"),
            ({"name": 5}, "name: expected the name of a folder, found 5"),
            ({"name": ""}, "name: expected the name of a folder"),
            ({"set_name": Path("a")}, r"set_name: expected test or validation .*as source=\), found PosixPath\('a'\)"),
            ({"set_name": ""}, "set_name: expected test or validation, found ''"),
        ],
    )
    def test_mistakes_are_named(self, own, given, told):
        with pytest.raises(qkv.InputError, match=told):
            own.evaluate(**given)


@pytest.mark.parametrize("path", ["no/such/run", ".", 5, None, b"runs/demo", ["runs/demo"]])
def test_what_is_no_run_is_not_loaded(path):
    with pytest.raises(qkv.InputError):
        qkv.load(path)


def test_a_run_that_is_gone_is_freed_by_the_next_load(unbroken):
    model = ref(qkv.load(unbroken).model)
    qkv.load(unbroken)
    assert model() is None


def test_a_checkpoint_is_best_or_last(unbroken):
    with pytest.raises(qkv.InputError, match="checkpoint: expected best or last, found 'first'"):
        qkv.load(unbroken, "first")
    assert qkv.load(unbroken, "last").trained.weights.suffix == ".npz"


class _Interrupting(keras.callbacks.Callback):
    """Sends what a person sends by stopping a cell."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            os.kill(os.getpid(), signal.SIGINT)


class TestTrain:
    @pytest.fixture
    def config(self, tmp_path):
        settings = small_settings(write_small_corpus(tmp_path / "text"), tmp_path / "runs")
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        return tmp_path / "mine.yaml"

    @pytest.mark.minutes
    @by_hand
    def test_pairs_need_two_languages_alone_and_the_same_call_goes_on(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        sides = [(ROOT / f"data/demo/train.{suffix}").read_text("utf-8").splitlines()[:100] for suffix in ("en", "fr")]
        frame = pd.DataFrame({"en": sides[0], "fr": sides[1]})
        languages = {"data": {"source_language": "en", "target_language": "fr"}}
        settings = {"training.max_updates": 2, "model": {"d_model": 8, "d_ff": 8, "encoder_layers": 1}}
        run = qkv.train(languages, settings, pairs=frame, verbose=0)
        assert run.path == Path("runs/en_fr") and run.config.data.validation.source.parent.name == "held_out"
        again = qkv.train(
            languages, settings | {"training.max_updates": 3}, pairs=iter(frame.values.tolist()), verbose=0
        )
        assert again.history["update"].iloc[-1] == 3
        with pytest.raises(qkv.InputError, match="runs/en_fr: the run was started with other pairs"):
            qkv.train(languages, settings, pairs=frame[1:])
        assert len(run.evaluate().archive) == 10
        assert not list(tmp_path.glob("qkv-pairs-*"))

    def test_the_dictionary_is_a_config_without_pairs_too(self, config, monkeypatch):
        seen = []
        monkeypatch.setattr(api, "train_run", lambda config, *others: seen.append(config) or True)
        settings = yaml.safe_load(config.read_text(encoding="utf-8")) | {"run.name": "mine"}
        del settings["inspection"]
        for given in (settings, config):
            with pytest.raises(KeyboardInterrupt):
                qkv.train(given, {"model.d_ff": 12, "inspection.probes": []})
        assert seen[0] == seen[1] and seen[0].model.d_ff == 12

    @pytest.mark.minutes
    def test_an_interrupted_call_is_resumed_by_the_same_call_and_shows_what_it_does(self, config, capsys):
        settings = {"training.max_updates": 7, "model.d_ff": 12}
        with pytest.raises(KeyboardInterrupt):
            qkv.train(str(config), settings, verbose=0, callbacks=[_Interrupting()])
        assert capsys.readouterr().out == ""
        run = qkv.train(str(config), settings)
        shown = capsys.readouterr().out
        assert "update      5  " in shown and "update      4  " not in shown
        assert "trained for 7 updates" in shown
        assert run.path == config.parent / "runs" / "mine"
        assert (run.config.model.d_ff, run.history["update"].iloc[-1]) == (12, 7)
        assert not logging.getLogger("qkv").handlers
        with pytest.raises(qkv.InputError, match=r"--model\.d_ff: 12, not 8: a resumed run keeps its settings"):
            qkv.train(run.path, {"model.d_ff": 8})

    def test_a_second_training_in_one_process_is_refused(self, config):
        with api._training, pytest.raises(qkv.InputError, match="mine: another training runs in this process"):
            qkv.train(config)
        assert not (config.parent / "runs").exists()

    def test_ctrl_c_within_preparation_is_one_line(self, config, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(api, "train_run", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"runs/mine: training was interrupted; nothing is saved") as error:
            qkv.train(config)
        assert len(error.traceback) == 2 and error.value.__context__ is None
        assert not api._training.locked()

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"model.d_modle": 3}, r"model.d_modle: no such key; did you mean model.d_model\? \(settings\)"),
            ({"data.test.source": "nowhere"}, "nowhere"),
            ({"model": {"d_modle": 3}}, r"model.d_modle: no such key; did you mean model.d_model\? \(settings\)"),
            (["model.d_model"], r"settings: expected a dictionary such as \{\"model.d_model\": 64\}, found \["),
            ([], "settings: expected a dictionary"),
            ("", "settings: expected a dictionary"),
            ({"model": {3: 4}}, 'settings: expected keys that are text, such as "model.d_model", found 3'),
        ],
    )
    def test_mistakes_are_named(self, config, settings, told):
        with pytest.raises(qkv.InputError, match=told):
            qkv.train(config, settings)
        assert not (config.parent / "runs").exists()

    @pytest.mark.parametrize("given", [{"config": 5}, {"config": None}, {"config": ["a"]}, {"verbose": "no"}])
    def test_arguments_of_another_type_are_refused(self, config, given):
        (name,) = given
        with pytest.raises(qkv.InputError, match=f"^{name}: expected "):
            qkv.train(**{"config": config, **given})

    def test_nested_settings_leave_the_others_of_their_section_as_they_are(self, config, monkeypatch):
        seen = []
        monkeypatch.setattr(api, "train_run", lambda config, *others: seen.append(config) or True)
        for settings in ({"model.d_model": 12}, {"model": {"d_model": 12}}, {}):
            with pytest.raises(KeyboardInterrupt):
                qkv.train(config, settings)
        dotted, nested, unchanged = seen
        assert nested == dotted != unchanged
        assert nested.model.model_copy(update={"d_model": 8}) == unchanged.model

    def test_a_callback_that_cannot_be_called_is_refused_before_the_run_has_a_folder(self, config):
        for callback in (object(), keras.callbacks.TensorBoard(str(config.parent / "board"))):
            with pytest.raises(qkv.InputError, match=r"^callbacks: "):
                qkv.train(config, callbacks=[callback])
        assert not (config.parent / "runs").exists()

    def test_a_cell_of_a_notebook_has_one_line_that_is_rewritten(self, monkeypatch):
        shown = []
        handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
        shell = SimpleNamespace(kernel=object())
        display = SimpleNamespace(display=lambda *_, **settings: handle)
        notebook = SimpleNamespace(get_ipython=lambda: shell, display=display)
        monkeypatch.setitem(sys.modules, "IPython", notebook)
        with api._progress_stream(1) as stream:
            logging.getLogger("qkv.run").info("on 2 cores")
            line = ProgressLine(Limits(max_updates=9), 3, Progress(), stream)
            for update in (1, 2):
                line.on_train_batch_end(update, {"update": update, "epoch": 0, "minutes": 1.0, "loss": 2.5})
            stream.write("\n")
        assert shown[0] == "on 2 cores\n"
        assert [text.count("update") for text in shown[1:]] == [1] * len(shown[1:]) != []
        assert "update      2" in shown[-1] and "on 2 cores\n" in shown[-1]


class TestExport:
    def test_a_folder_is_what_the_command_writes(self, tmp_path, monkeypatch):
        pytest.importorskip("ctranslate2")
        monkeypatch.setattr(parity, "read_corpus", lambda settings: SimpleNamespace(source=[""]))  # nothing to check
        kept = KEPT_RUNS / "transformer"
        folder = qkv.load(kept).export("ctranslate2", str(tmp_path / "python"))
        assert export_command.main([str(kept), str(tmp_path / "shell"), "--format", "ctranslate2"]) == 0
        for name in ("model.bin", "manifest.json"):
            assert (folder / name).read_bytes() == (tmp_path / "shell" / name).read_bytes()

    @pytest.mark.parametrize(
        ("kind", "wishes", "told"),
        [
            ("ctranslate", {}, r"format: expected one of .*; did you mean ctranslate2\?"),
            ("marian", {"quantization": "int8"}, "quantization: it has no effect with"),
            ("ctranslate2", {"quantization": "int9"}, "quantization: expected one of float32, .*, found 'int9'"),
            (5, {}, "format: expected the name of a format, such as 'saved_model', found 5"),
            ("saved_model", {"at": 5}, "at: expected text such as"),
        ],
    )
    def test_mistakes_are_named(self, run, tmp_path, kind, wishes, told):
        with pytest.raises(qkv.InputError, match=told):
            run.export(kind, tmp_path / "exported", **wishes)
        assert not (tmp_path / "exported").exists()


def test_a_marian_model_becomes_a_run(tmp_path):
    run = qkv.import_marian(MARIAN, str(tmp_path / "opus"), target_language="de")
    assert (run.path.name, run.config.data.target_language) == ("opus", "de")
    assert run.history.empty


def test_what_is_no_marian_model_is_not_imported(tmp_path):
    with pytest.raises(qkv.InputError, match="no such folder; expected the folder that save_pretrained"):
        qkv.import_marian(str(tmp_path / "nowhere"), tmp_path / "runs" / "opus")
    with pytest.raises(qkv.InputError, match=r"RUN: "):
        qkv.import_marian(tmp_path, tmp_path / "..")

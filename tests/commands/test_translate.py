"""Translating: what is held does not grow with the lines of the stream that were translated."""

import gc
import io
import json
import shutil
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from qkv.commands import translate
from qkv.config import load_run_config
from qkv.decoding.translator import Translator
from qkv.inspection.recorder import pair_translations
from qkv.run import processes, train
from qkv.run.trained_run import load_run
from qkv.text.lines import stream
from tests.benchmarks.stream import growth, sentences
from tests.support.minutes import by_hand
from tests.support.run_contents import state_at
from tests.support.tiny_runs import small_config, write_small_corpus, write_stub
from tests.support.training import Copy

pytestmark = pytest.mark.usefixtures("loaded_once")

WINDOWS, SETTLED, WINDOW_LINES = 6, 2, 500
UPDATES = 12  # of several epochs
BYTES_PER_LINE = 40  # less than an object that is kept for each line


class CountingOutput(io.BytesIO):
    """Standard output that is thrown away; each flush, one a window, notes what Python holds."""

    def __init__(self):
        super().__init__()
        self.held = []

    def write(self, data):
        return len(data)

    def flush(self):
        gc.collect()
        self.held.append(tracemalloc.get_traced_memory()[0])


@by_hand
@pytest.mark.minutes
def test_what_python_holds_does_not_grow_with_the_lines(unbroken, monkeypatch):
    text, output = b"".join(sentences(WINDOWS * WINDOW_LINES)), CountingOutput()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output, flush=lambda: None, isatty=lambda: False))
    monkeypatch.setattr(stream.ArrivingLines.__init__, "__defaults__", (WINDOW_LINES, None))
    tracemalloc.start()
    try:
        assert translate.main([str(unbroken), "--beam_size", "2", "--n_best", "2", "--detokenize"]) == 0
    finally:
        tracemalloc.stop()
    assert len(output.held) == WINDOWS
    grown = output.held[-2] - output.held[SETTLED - 1]  # with the last window, the lines read ahead go
    assert grown < BYTES_PER_LINE * (WINDOWS - 1 - SETTLED) * WINDOW_LINES, output.held


def test_growth_compares_the_last_quarter_with_the_first_after_the_settled_lines():
    flat = dict.fromkeys(range(500, 20001, 500), 100.0)
    assert growth(flat | {500: 10.0, 4_500: 50.0}, settled=5_000) == 0
    assert growth({line: 100 + line / 1000 for line in flat}, settled=5_000) == pytest.approx(0.107, abs=0.01)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A run on two corpora with weights, one of them with a tag, and its copy of before the eighth update."""
    folder = tmp_path_factory.mktemp("tagged")
    corpus = write_small_corpus(folder / "corpus")
    first = {"source": str(corpus / "train.en"), "target": str(corpus / "train.fr"), "weight": 1}
    listed = [first, first | {"weight": 2, "tag": "<back>"}]

    changes = {"data.train": listed, "training.max_updates": UPDATES, "batches.batch_tokens": 900}
    config = small_config(corpus, folder / "runs", "whole", changes)
    whole, stopped = (folder / "runs" / name for name in ("whole", "stopped"))
    assert train(config, callbacks=[Copy(whole, {7: stopped})]) == 0
    return whole, stopped


def translated(run, text, monkeypatch, capsysbinary, *options):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status = translate.main([str(run), "--beam_size", "1", *options])
    said = capsysbinary.readouterr()
    return said.out.decode() if status == 0 else said.err.decode()


@pytest.mark.minutes
def test_a_tag_is_typed_or_given_as_an_option_and_plain_text_has_none(tagged, monkeypatch, capsysbinary):
    run = tagged[0]
    seen = []
    original = Translator.translate_ids

    def spy(self, source_ids, *given):
        seen.append([list(ids) for ids in source_ids])
        return original(self, source_ids, *given)

    monkeypatch.setattr(Translator, "translate_ids", spy)
    answer = translated(run, "the cat\n<back> the cat\n\n", monkeypatch, capsysbinary)
    assert translated(run, "the cat\n<back> the cat\n\n", monkeypatch, capsysbinary, "--tag", "<back>") != ""
    (plain, typed, nothing), (given, typed_too, _) = seen
    assert nothing == [] and plain and typed[1:] == plain and typed == given == typed_too
    assert answer.count("\n") == 3
    wrong = translated(run, "the cat\n", monkeypatch, capsysbinary, "--tag", "<bakc>")
    assert wrong.startswith(
        "error: decoding.tag: expected one of the tags of data.train, <back>, or null, found '<bakc>'"
    )


@pytest.mark.minutes
def test_a_run_on_a_list_goes_on_bit_for_bit_over_several_epochs(tagged):
    stopped = tagged[1]
    assert train(load_run_config(stopped / "config.yaml"), resume=stopped) == 0
    np.testing.assert_equal(*(state_at(run, UPDATES) for run in tagged))


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\r", "a ||| b\n"])
def test_a_translation_is_one_line_whatever_it_holds(text):
    translation = SimpleNamespace(text=text, log_probabilities=[-1.0], score=-1.0)
    assert not set(translate.one_line(text)) & set("\r\n")
    for line in translate.format_n_best(7, [translation] * 2).split("\n")[:-1]:
        assert len(line.split(" ||| ")) == 4 and line.startswith("7 ||| ") and "\r" not in line


def test_each_sentence_of_a_line_is_translated_by_itself(unbroken, monkeypatch, capsysbinary):
    one, other = translated(unbroken, "the cat sleeps .\nthe dog eats .\n", monkeypatch, capsysbinary).splitlines()
    text = "\nthe cat sleeps .  the dog eats . the cat sleeps .\n\n"
    lines = translated(unbroken, text, monkeypatch, capsysbinary, "--split").split("\n")
    assert lines == ["", f"{one}  {other} {one}", "", ""]
    hidden = "\n\ufeffthe c\xadat sleeps .\u200b  the dog eats . the cat sleeps .\n\n"
    assert translated(unbroken, hidden, monkeypatch, capsysbinary, "--split").split("\n") == lines
    monkeypatch.setattr(processes, "map_in_processes", lambda function, items, processes: map(function, items))
    assert translated(unbroken, text, monkeypatch, capsysbinary, "--split", "--workers", "2").split("\n") == lines


@pytest.mark.minutes
def test_a_json_object_a_translation(unbroken, monkeypatch, capsysbinary):
    text, options = "the dog\n\nthe cat sleeps . the dog\n", ("--beam_size", "3", "--n_best", "2", "--split", "--json")
    written = translated(unbroken, text, monkeypatch, capsysbinary, *options, "--attention")
    found = list(map(json.loads, written.splitlines()))
    places = [(one["line"], one["sentence"], one["rank"]) for one in found]
    assert places == [(1, 1, 1), (1, 1, 2), (2, 1, 1), (3, 1, 1), (3, 1, 2), (3, 2, 1), (3, 2, 2)]
    assert [one["text"] for one in found[:2]] == [one["text"] for one in found[5:]]
    assert {one["text"] for one in found if one["line"] == 2} == {""}
    for one in found:
        weights = np.array(one["attention"])
        assert weights.ndim == 4 and weights.shape[2:] == (len(one["tokens"]), len(one["source_tokens"]))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
        assert one["source_tokens"][-1] == "</s>" and one["log_probability"] <= 0
    plain = translated(unbroken, text, monkeypatch, capsysbinary, *options)
    assert [json.loads(line) for line in plain.splitlines()] == [
        {key: value for key, value in one.items() if key != "attention"} for one in found
    ]


@pytest.mark.minutes
def test_attention_in_json_is_the_archived_attention_of_the_translation(unbroken, monkeypatch, capsysbinary):
    run = load_run(unbroken)
    options = "--json", "--attention", "--beam_size", str(run.config.decoding.beam_size)
    written = json.loads(translated(unbroken, "the cat eats\n", monkeypatch, capsysbinary, *options))
    translation = run.translator.translate(["the cat eats"])[0]
    record = next(run.recorder(["cross"]).record(pair_translations(["the cat eats"], None, [translation])))
    assert (written["text"], written["tokens"]) == (translation.text, record.target_output_tokens)
    np.testing.assert_allclose(written["attention"], record.attention["cross"], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attention",), "--attention: attention is only written as JSON; expected --json"),
        (("--split", "--n_best", "1"), "--split: a line is joined from the best"),
        (("--split", "--prefix", "config.yaml"), "--split: --prefix and --require"),
        (("--markup", "html", "--split", "--json"), "--split: JSON has an object for each sentence"),
        (("--markup", "html-page", "--json"), "--json: --markup html-page writes one page"),
        (("--markup", "html-page", "--workers", "2"), "--workers: --markup html-page is translated by one process"),
    ],
)
def test_options_that_do_not_go_together(options, message, unbroken, monkeypatch, capsysbinary):
    monkeypatch.chdir(unbroken)
    assert message in translated(unbroken, "the cat\n", monkeypatch, capsysbinary, *options)


def test_attention_of_a_model_without_cross_attention_is_refused_before_it_is_loaded(tmp_path, capsys):
    run = write_stub(tmp_path, "none", model={"architecture": "recurrent", "cross_attention": "none"})
    for options in (["--json", "--attention"], ["--markup", "html"], ["--markup", "html-page"]):
        assert translate.main([str(run), *options]) == 2
        assert "none has no cross-attention; leave it out" in capsys.readouterr().err


@pytest.mark.minutes
def test_markup_is_in_the_output_whatever_its_form(unbroken, tmp_path, monkeypatch, capsysbinary):
    unbroken = shutil.copytree(unbroken, tmp_path / "copy")  # the choice of the links is written into it
    text = 'the <b>cat</b> sleeps . <i title="a\u0301">the dog</i> eats .\n<br>\n\nthe <b>dog\n'
    options = "--markup", "html"
    lines = translated(unbroken, text, monkeypatch, capsysbinary, *options).split("\n")
    assert len(lines) == 5 and lines[1:3] == ["<br>", ""] and lines[3].count("<b>") == 1
    assert all(lines[0].count(tag) == 1 for tag in ("<b>", "</b>", '<i title="a\u0301">', "</i>"))
    split = translated(unbroken, text, monkeypatch, capsysbinary, *options, "--split").split("\n")
    assert len(split) == 5 and split[0].index("</b>") < split[0].index('<i title="a\u0301">')
    written = translated(unbroken, text, monkeypatch, capsysbinary, *options, "--json", "--attention")
    found = list(map(json.loads, written.splitlines()))
    assert [one["text"] for one in found] == lines[:4] and "<" not in "".join(found[0]["tokens"][:-1])
    assert np.array(found[0]["attention"]).shape[2:] == (len(found[0]["tokens"]), len(found[0]["source_tokens"]))
    n_best = translated(unbroken, text, monkeypatch, capsysbinary, *options, "--n_best", "1").splitlines()
    assert [line.split(" ||| ")[1] for line in n_best] == lines[:4]
    monkeypatch.setattr(processes, "map_in_processes", lambda function, items, processes: map(function, items))
    assert translated(unbroken, text, monkeypatch, capsysbinary, *options, "--workers", "2").split("\n") == lines


@pytest.mark.minutes
def test_a_page_is_written_in_its_own_encoding(unbroken, tmp_path, monkeypatch, capsysbinary):
    unbroken = shutil.copytree(unbroken, tmp_path / "copy")
    page = "<meta charset=latin1>\r\n<p>the <b title='\xe9'>cat</b> sleeps .</p>\r\n<p>12</p>".encode("latin1")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(page)))
    assert translate.main([str(unbroken), "--markup", "html-page"]) == 0
    out = capsysbinary.readouterr().out
    assert out.startswith(b"<meta charset=latin1>\r\n<p>") and out.endswith(b"</p>\r\n<p>12</p>")
    assert out.count(b"<b title='\xe9'>") == out.count(b"</b>") == 1

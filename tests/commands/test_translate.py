"""Translating: what is held does not grow with the lines of the stream that were translated."""

import gc
import io
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import train
from qkv.commands import translate
from qkv.config.yaml import dump_yaml
from qkv.decoding.translator import Translator
from qkv.text.arriving_lines import WINDOW_LINES
from tests.benchmarks.stream import growth, sentences
from tests.support.tiny_runs import small_settings, write_small_corpus

WINDOWS, SETTLED = 6, 2
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    settings = small_settings(write_small_corpus(folder / "corpus"), folder / "runs")
    (folder / "small.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    assert train.main(["--config", str(folder / "small.yaml")]) == 0
    return folder / "runs" / "small"


@pytest.mark.minutes
def test_what_python_holds_does_not_grow_with_the_lines(trained, monkeypatch):
    text, output = b"".join(sentences(WINDOWS * WINDOW_LINES)), CountingOutput()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output, flush=lambda: None, isatty=lambda: False))
    tracemalloc.start()
    try:
        assert translate.main([str(trained), "--beam_size", "2", "--n_best", "2", "--detokenize"]) == 0
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
    """The settings of runs on two corpora with weights, one of them with a tag, and a run."""
    folder = tmp_path_factory.mktemp("tagged")
    corpus = write_small_corpus(folder / "corpus")
    first = {"source": str(corpus / "train.en"), "target": str(corpus / "train.fr"), "weight": 1}
    listed = [first, first | {"weight": 2, "tag": "<back>"}]

    def write(name, updates):
        changes = {"data.train": listed, "run.name": name, "training.max_updates": updates, "batches.batch_tokens": 900}
        settings = small_settings(folder / "corpus", folder / "runs", changes)
        (folder / f"{name}.yaml").write_text(dump_yaml(settings), encoding="utf-8")
        return ["--config", str(folder / f"{name}.yaml")]

    assert train.main(write("whole", 24)) == 0
    return folder / "runs", write


def translated(run, text, monkeypatch, capsysbinary, *options):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status = translate.main([str(run), "--beam_size", "1", *options])
    said = capsysbinary.readouterr()
    return said.out.decode() if status == 0 else said.err.decode()


def test_a_tag_is_typed_or_given_as_an_option_and_plain_text_has_none(tagged, monkeypatch, capsysbinary):
    run = tagged[0] / "whole"
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


def test_a_run_on_a_list_goes_on_bit_for_bit_over_several_epochs(tagged):
    runs, write = tagged
    assert train.main(write("resumed", 7)) == 0
    assert train.main(["--resume", str(runs / "resumed"), "--training.max_updates", "24"]) == 0
    last = [sorted((runs / name / "checkpoints").glob("update-*.npz"))[-1] for name in ("whole", "resumed")]
    with np.load(last[0]) as one, np.load(last[1]) as other:
        assert set(one.files) == set(other.files)
        for name in one.files:
            if one[name].dtype.kind == "f" and one[name].ndim:
                np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\r", "a ||| b\n"])
def test_a_translation_is_one_line_whatever_it_holds(text):
    translation = SimpleNamespace(text=text, log_probabilities=[-1.0], score=-1.0)
    best = translate.format_best(0, [translation])
    assert (best.count("\n"), best.count("\r"), best[-1]) == (1, 0, "\n")
    for line in translate.format_n_best(7, [translation] * 2).split("\n")[:-1]:
        assert len(line.split(" ||| ")) == 4 and line.startswith("7 ||| ") and "\r" not in line

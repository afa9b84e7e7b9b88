"""Translating: what is held does not grow with the lines of the stream that were translated."""

import gc
import io
import tracemalloc
from types import SimpleNamespace

import pytest

import train
from pipeline import translate
from pipeline.config.yaml import dump_yaml
from pipeline.text.arriving_lines import WINDOW_LINES
from tests.benchmarks.stream import growth, sentences
from tests.tiny_runs import small_settings, write_small_corpus

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
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output, flush=lambda: None))
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

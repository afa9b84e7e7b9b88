"""Work that is spread over processes gives the same bytes as one process."""

import filecmp
import io
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import train
from qkv.commands import align, translate
from qkv.config.yaml import dump_yaml
from qkv.errors import LostWorkerError
from qkv.run import processes
from qkv.text.lines import stream
from tests.support import ROOT
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = pytest.mark.slow

EVALUATE = """
import sys
import evaluate
from qkv.evaluation import evaluation_folder as resumable
resumable.CHUNK_SENTENCES = 4
if __name__ == "__main__":
    sys.exit(evaluate.main(sys.argv[1:]))
"""


def end(item):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_told_in_one_sentence():
    with pytest.raises(LostWorkerError, match=r"one of the 2 processes of --workers was killed, .* give fewer"):
        list(processes.spread(end, [1], 2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run, and the folder of its corpus."""
    folder = tmp_path_factory.mktemp("spread")
    settings = small_settings(write_small_corpus(folder / "corpus"), folder / "runs", {"decoding.beam_size": 1})
    (folder / "small.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    assert train.main(["--config", str(folder / "small.yaml")]) == 0
    return folder / "runs" / "small", folder / "corpus"


@pytest.mark.minutes
def test_lines_are_translated_to_the_same_bytes_in_their_order(trained, tmp_path, monkeypatch):
    run, corpus = trained
    (tmp_path / "prefix").write_text("la\n\n" * 60, encoding="utf-8")
    monkeypatch.setattr(stream.ArrivingLines.__init__, "__defaults__", (50, None))  # 3 windows

    def translated(workers):
        output = io.BytesIO()
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((corpus / "train.en").read_bytes())))
        monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output, flush=lambda: None, isatty=lambda: False))
        assert translate.main([str(run), "--prefix", str(tmp_path / "prefix"), "--workers", str(workers)]) == 0
        return output.getvalue()

    alone = translated(1)
    assert alone.count(b"\n") == 120 and translated(2) == alone


@pytest.mark.minutes
def test_an_evaluation_and_links_are_the_same(trained, capsys):
    run, corpus = trained
    links = []
    for workers in ("1", "2"):
        # In a process of its own: here graphs are not optimised, so that sums are rounded otherwise.
        command = [sys.executable, "-c", EVALUATE, str(run), "--name", f"by {workers}", "--workers", workers]
        assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
        text = [f"--{side}={corpus / f'train.{suffix}'}" for side, suffix in (("source", "en"), ("target", "fr"))]
        assert align.main([str(run), *text, "--at=0,0,output", "--workers", workers]) == 0
        links.append(capsys.readouterr().out)
    assert links[0] == links[1] and links[0].count("\n") == 120
    alone, spread_over = (run / "evaluations" / f"by {workers}" for workers in ("1", "2"))
    compared = ["translations.tsv", "attention/sentences.jsonl", "attention/shard-00000.npz", "heads.csv"]
    for name in compared:
        assert filecmp.cmp(alone / name, spread_over / name, shallow=False), name

"""Work that is spread over processes gives the same bytes as one process."""

import filecmp
import io
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from qkv.commands import translate
from qkv.errors import LostWorkerError
from qkv.run import processes
from qkv.text.lines import stream
from tests.support import ROOT

pytestmark = pytest.mark.slow

EVALUATE = """
import sys
import evaluate
from qkv.evaluation import evaluation_folder as resumable
resumable.CHUNK_SENTENCES = 4
if __name__ == "__main__":
    for workers in "12":
        assert evaluate.main([sys.argv[1], "--name", f"by {workers}", "--beam_size", "1", "--workers", workers]) == 0
"""


def end(item):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_told_in_one_sentence():
    with pytest.raises(LostWorkerError, match=r"one of the 2 processes of --workers was killed, .* give fewer"):
        list(processes.spread(end, [1], 2))


@pytest.fixture(scope="module")
def trained(unbroken, tmp_path_factory):
    """A run, and the folder of its corpus."""
    run = shutil.copytree(unbroken, tmp_path_factory.mktemp("spread") / "run")
    return run, unbroken.parents[1] / "corpus"


@pytest.mark.minutes
def test_lines_are_translated_to_the_same_bytes_in_their_order(trained, tmp_path, monkeypatch):
    run, corpus = trained
    (tmp_path / "prefix").write_text("la\n\n" * 60, encoding="utf-8")
    monkeypatch.setattr(stream.ArrivingLines.__init__, "__defaults__", (50, None))  # 3 windows

    def translated(workers):
        output = io.BytesIO()
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((corpus / "train.en").read_bytes())))
        monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output, flush=lambda: None, isatty=lambda: False))
        assert (
            translate.main([str(run), "--prefix", str(tmp_path / "prefix"), "--beam_size", "1", f"--workers={workers}"])
            == 0
        )
        return output.getvalue()

    alone = translated(1)
    assert alone.count(b"\n") == 120 and translated(2) == alone


@pytest.mark.minutes
def test_an_evaluation_is_the_same(trained):
    run, _ = trained
    # In a process of its own: here graphs are not optimised, so that sums are rounded otherwise.
    subprocess.run([sys.executable, "-c", EVALUATE, str(run)], cwd=ROOT, capture_output=True, check=True)
    alone, spread_over = (run / "evaluations" / f"by {workers}" for workers in ("1", "2"))
    for name in ("translations.tsv", "attention/sentences.jsonl", "attention/shard-00000.npz", "heads.csv"):
        assert filecmp.cmp(alone / name, spread_over / name, shallow=False), name

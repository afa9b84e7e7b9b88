"""Work that is spread over processes gives the same bytes as one process."""

import io
import os
import shutil
import signal
from types import SimpleNamespace

import pytest

from qkv.commands import translate
from qkv.errors import LostWorkerError
from qkv.run import processes
from qkv.text.lines import stream

pytestmark = pytest.mark.slow


def end(item):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_told_in_one_sentence():
    with pytest.raises(LostWorkerError, match=r"one of the 2 processes of --workers was killed, .* give fewer"):
        list(processes.map_in_processes(end, [1], 2))


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

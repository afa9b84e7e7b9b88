"""The command that writes the page with the model inside."""

import pytest

from pipeline import live
from tests.random_runs import random_run


@pytest.fixture
def root(tokenizer, tmp_path, monkeypatch):
    """The folder of a run, which is loaded as one of random weights."""
    run = random_run(tokenizer, tmp_path)
    (run.directory.root / "checkpoints").mkdir(parents=True)
    for name in ("config.yaml", "checkpoints/best.npz"):
        (run.directory.root / name).touch()
    monkeypatch.setattr("pipeline.trained_run.load_run", lambda root, checkpoint: run)
    monkeypatch.setattr("pipeline.live.load_started_run", lambda path: run.config)
    return run.directory.root


def test_it_writes_a_page_and_says_where(root, tmp_path, capsys):
    page = tmp_path / "new" / "translator.html"
    assert live.main([str(root), "--page", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_it_says_what_it_cannot_write(root, tmp_path, capsys, monkeypatch):
    assert live.main([str(root), str(root), "--page", str(tmp_path / "page.html")]) == 2
    assert "--page: expected one run" in capsys.readouterr().err
    (tmp_path / "mine.html").write_text("mine")
    assert live.main([str(root), "--page", str(tmp_path / "mine.html")]) == 2
    assert "mine.html: already there, and not the page of this run" in capsys.readouterr().err
    monkeypatch.setattr("pipeline.live_page.packed_model.MOST_PARAMETERS", 10)
    assert live.main([str(root), "--page", str(tmp_path / "page.html")]) == 2
    assert "of use up to 10" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()

"""The command that serves the page, also to other programs, or writes the page with the model inside."""

import json
import logging
import os
import signal
import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from qkv.commands import live
from qkv.errors import InputError
from qkv.files.run_directory import PACKAGED
from qkv.live import live as show
from qkv.run import trained_run
from tests.support.random_runs import random_run
from tests.support.tiny_runs import write_stub


@pytest.fixture
def root(tokenizer, tmp_path, monkeypatch):
    """The folder of a run, which is loaded as one of random weights."""
    run = random_run(tokenizer, tmp_path)
    (run.directory.root / "checkpoints").mkdir(parents=True)
    for name in ("config.yaml", "checkpoints/best.npz"):
        (run.directory.root / name).touch()
    for module in ("live.server", "run.trained_run"):  # all are imported before one is replaced
        monkeypatch.setattr(f"qkv.{module}.load_run", lambda root, checkpoint: run)
    monkeypatch.setattr("qkv.commands.live.load_trained_run", lambda path: run.config)
    return run.directory.root


def test_it_writes_a_page_and_says_where(root, tmp_path, capsys):
    page = tmp_path / "new" / "translator.html"
    assert live.main([str(root), "--page", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_run_it_shows_the_trained_demo_or_that_of_the_package(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = []
    load = trained_run.load_run
    monkeypatch.setattr(trained_run, "load_run", lambda *model: loaded.append(model[0]) or load(*model))
    page = tmp_path / "translator.html"
    assert live.main(["--page", str(page)]) == 0
    (tmp_path / "runs").mkdir(exist_ok=True)
    root.rename(tmp_path / "runs" / "demo")
    assert live.main(["--page", str(page)]) == 0
    assert loaded == [PACKAGED, Path("runs/demo")]
    assert page.is_file()


def test_it_says_what_it_cannot_write(root, tmp_path, capsys, monkeypatch):
    assert live.main([str(root), str(root), "--page", str(tmp_path / "page.html")]) == 2
    assert "--page: expected one run" in capsys.readouterr().err
    assert live.main([str(root), "--page", str(root / "config.yaml")]) == 2
    assert "config.yaml: the command reads this file" in capsys.readouterr().err
    monkeypatch.setattr("qkv.live.model_page.MOST_PARAMETERS", 10)
    assert live.main([str(root), "--page", str(tmp_path / "page.html")]) == 2
    assert "supports at most 10 parameters" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.minutes
def test_a_notebook_shows_the_page_in_a_cell(root):
    with show(root) as page:
        shown = page._repr_html_()
        assert shown.startswith("<iframe ") and page.address.replace("&", "&amp;") in shown
        with urlopen(page.address) as answer:
            assert b'id="live"' in answer.read()
    with pytest.raises(OSError):  # refused, or cut off while the server ends
        urlopen(page.address)


def test_at_most_four_runs_stand_side_by_side(root, capsys):
    assert live.main([*[str(root)] * 3, "--checkpoint", "both"]) == 2
    assert "runs: expected 1 to 4 models side by side, found 6" in capsys.readouterr().err
    with pytest.raises(InputError, match="found 6"):
        show(*[root] * 3, checkpoint="both")


def test_ctrl_c_ends_it(root, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("qkv.live.server.ServedPage.wait", lambda page: (_ for _ in ()).throw(KeyboardInterrupt))
    assert live.main([str(root)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("http://127.0.0.1:") and "token=" in printed.out
    assert printed.err.endswith("Ctrl-C ends it\nended\n") and opened == [printed.out.strip()]


@pytest.mark.parametrize("host", ["", " ", "x" * 5000, "1.2.3.4.5", "[::1", "a/b", "\x07"])
def test_an_address_that_is_none_is_told_before_a_run_is_loaded(host, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live, "importing_tensorflow", None)
    assert live.main([str(write_stub(tmp_path, "run")), "--host", host]) == 2
    assert "argument --host: expected an address of this machine, such as 127.0.0.1, found " in capsys.readouterr().err


KEY = "a key that is long enough"


@pytest.mark.minutes
def test_other_programs_are_answered_until_sigterm(root, capsys, caplog, monkeypatch):
    pytest.importorskip("sentencex")
    opened, answers = [], []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("QKV_API_KEY", KEY)
    handler, level = signal.getsignal(signal.SIGTERM), logging.getLogger("qkv.text").level

    def ask_and_end(page):
        form = {"q": "the \u03a9 cat . secret\nthe dog", "source": "en", "target": "fr", "api_key": KEY}
        with urlopen(page.address.replace("/?", "/translate?"), urlencode(form).encode()) as answer:
            answers.append(json.load(answer)["translatedText"])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("qkv.live.server.ServedPage.wait", ask_and_end)
    try:
        assert live.main([str(root), "--api"]) == 0
    finally:
        logging.getLogger("qkv.text").setLevel(level)
    page, api = capsys.readouterr().out.splitlines()
    assert api == f"API: {page.partition('/?')[0]}" and KEY not in page and opened == []
    assert len(answers) == 1 and answers[0].count("\n") == 1
    sent = ("secret", "the dog", "\u03a9", KEY)
    assert not [record for record in caplog.records if any(text in record.getMessage() for text in sent)]
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        (["--page", "page.html"], None, "--api: nothing is served with --page"),
        (["--checkpoint", "both"], None, "both translate from en to fr; expected runs of different languages"),
        (
            ["--host", "0.0.0.0"],
            None,
            "--host 0.0.0.0: other machines could use the API without a key; set the environ",
        ),
        (["--host", "::"], None, "--host ::: other machines could use the API without a key"),
        ([], "", "QKV_API_KEY: expected at least 16 characters of ASCII without spaces at the ends, found 0"),
        ([], "short", "found 5; to make one: python -c"),
        ([], f" {KEY}", "QKV_API_KEY: expected at least"),
        ([], "clé" * 10, "QKV_API_KEY: expected at least"),
    ],
)
def test_what_the_api_lacks_is_told_before_a_run_is_loaded(tmp_path, arguments, key, message, capsys, monkeypatch):
    pytest.importorskip("sentencex")
    monkeypatch.setattr(live, "importing_tensorflow", None)
    monkeypatch.setattr("qkv.files.run_directory.RunDirectory.check_weights", lambda run, checkpoint: None)
    if key is not None:
        monkeypatch.setenv("QKV_API_KEY", key)
    assert live.main([str(write_stub(tmp_path, "run")), "--api", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and (not key or key not in error)

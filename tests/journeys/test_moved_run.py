"""A run that was copied to a machine without its text does there what it did where it was trained."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

import evaluate
import qkv
from qkv.alignment.readout_selection import read_choice
from qkv.commands import align, compare, draw, explain, export, live, measure, translate, view
from qkv.commands import doctor as doctor_command
from qkv.errors import InputError
from tests.support import change_json, files_below
from tests.support.trained_runs import loading_once

pytestmark = pytest.mark.slow

SOURCE, TARGET = "the cat eats the apple .", "le chat mange une pomme verte ."


@pytest.fixture(scope="module")
def moved(unbroken, tmp_path_factory):
    """The run in an empty folder, what it aligned at home, and its evaluation there."""
    home, place = (tmp_path_factory.mktemp(name) for name in ("home", "place"))
    root = Path(shutil.copytree(unbroken, home / "runs" / "unbroken"))
    corpus = unbroken.parents[1] / "corpus"
    shutil.copytree(corpus, home / "corpus")
    config = root / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace(f"{corpus}/", "corpus/"), encoding="utf-8")
    before = Path.cwd()
    os.chdir(home)
    try:
        links = qkv.load("runs/unbroken").align(SOURCE, TARGET)
        assert (root / "alignment.json").is_file()
        home.rename(home.with_name("gone"))
        shutil.copytree(home.with_name("gone") / "runs" / "unbroken", place / "unbroken")
        os.chdir(place)
        (place / "mine.en").write_text(f"{SOURCE}\n{SOURCE[:-2]} today .\n", encoding="utf-8")
        (place / "mine.fr").write_text(f"{TARGET}\n{TARGET}\n", encoding="utf-8")
        yield qkv.load(place / "unbroken"), links
    finally:
        os.chdir(before)


@pytest.fixture
def run(moved, monkeypatch):
    monkeypatch.chdir(moved[0].path.parent)
    return moved[0]


def test_links_are_the_same(run, moved, caplog):
    assert run.align(SOURCE, TARGET) == moved[1] != {}
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_choice_of_another_model_is_told(run, tmp_path):
    copied = qkv.load(shutil.copytree(run.path, tmp_path / "copied"))
    path = copied.path / "alignment.json"
    readout = json.loads(path.read_text())["readout"]
    change_json(path, readout=readout | {"layer": 99, "calibration": None, "likely": False})
    with pytest.raises(InputError, match=r"has 1 layers of . heads, from 0; found 'alignment.json'"):
        copied.align(SOURCE, TARGET)


def test_without_a_choice_the_last_layer_is_read_and_a_warning_says_so(run, tmp_path, caplog):
    copied = qkv.load(shutil.copytree(run.path, tmp_path / "copied"))
    (copied.path / "alignment.json").unlink()
    assert copied.align(SOURCE, TARGET)
    assert "corpus/validation.en: there is no such file, so no layer and head can be chosen on it" in caplog.text
    assert "the mean of the last layer's heads is read" in caplog.text
    assert not (copied.path / "alignment.json").exists()


@pytest.mark.minutes
@loading_once()
def test_every_command_works(run, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(shutil.copytree(run.path.parent, tmp_path / "place"))
    said = capsys.readouterr
    with open("mine.en", encoding="utf-8") as lines:  # noqa: PTH123
        monkeypatch.setattr("sys.stdin", lines)
        assert translate.main(["unbroken"]) == 0
    assert len(said().out.splitlines()) == 2
    files = ["--source", "mine.en", "--target", "mine.fr"]
    assert align.main(["unbroken", *files]) == 0 and len(said().out.splitlines()) == 2
    assert align.main(["unbroken", *files, "--probabilities"]) == 2  # so few gold links have calibrated nothing
    assert "error: corpus/validation.en: there is no such file" in said().err
    assert explain.main(["unbroken", "--sentence", SOURCE]) == 0
    assert evaluate.main(["unbroken", "--source", "mine.en", "--reference", "mine.fr", "--name", "mine"]) == 0
    evaluation = Path("unbroken/evaluations/mine")
    assert len((evaluation / "alignments.pharaoh").read_text().splitlines()) == 2  # read where the run keeps it
    assert evaluate.main(["unbroken", "--source", "mine.en", "--name", "again"]) == 0
    assert evaluate.main(["unbroken"]) == 2
    assert "error: corpus/test.en: there is no such file" in said().err
    assert draw.main(["unbroken", "--set", "mine", "--sentence", "1"]) == 0
    assert measure.main([str(evaluation / "attention"), "--folder", "measured"]) == 0
    assert view.main(["unbroken", "--set", "mine"]) == 0
    assert view.main(["unbroken", "--over_training"]) == 0
    assert compare.main([str(evaluation), str(evaluation)]) == 0
    assert live.main(["unbroken", "--page", "page.html"]) == 0
    assert export.main(["unbroken", "exported", "--format", "saved_model"]) == 0
    manifest = json.loads(Path("exported/manifest.json").read_text())
    choice = read_choice(run.trained)
    assert manifest["links"]["layer"] == choice.readout.layer and manifest["checked"]
    said()
    assert doctor_command.main(["unbroken/config.yaml", "--run.name", "new"]) == 2
    assert "error: corpus/train.en: there is no such file" in said().err


@pytest.mark.minutes
def test_every_method_works(run, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(run.path.parent, tmp_path / "place"))
    own = qkv.load(Path("unbroken").absolute())
    monkeypatch.chdir(tmp_path)
    assert own.translate(SOURCE).attention.attention["cross"].size
    evaluation = own.evaluate(source=tmp_path / "place" / "mine.en")
    assert "alignments.pharaoh" in files_below(evaluation.path) and len(evaluation.archive) == 2
    assert own.cache([SOURCE]) and own.explain(SOURCE, "decoder.0.cross", head=0, row=0)
    assert own.export("ctranslate2", "exported") == Path("exported")  # the other format is exported by the command
    assert len(own.history)
    with pytest.raises(InputError, match=r"corpus/test.en: there is no such file"):
        own.evaluate()

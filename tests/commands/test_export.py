"""The command that exports: what it leaves, what it says, what it refuses."""

import json
import re
import shutil
from types import SimpleNamespace
from zipfile import ZipFile

import numpy as np
import pytest

from qkv.commands import export
from qkv.exchange import parity
from qkv.files.atomic import temporary_path
from qkv.files.paths import sha256
from tests.support import KEPT_RUNS

RUN = KEPT_RUNS / "transformer"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder; the run's validation set has three lines."""
    lines = SimpleNamespace(source=["the cat sees the dog .", "", "a small cat sleeps ."])
    monkeypatch.setattr(parity, "read_corpus", lambda settings: lines)
    return tmp_path


def export_run(place, *options):
    return export.main([str(RUN), str(place / "exported"), *options])


@pytest.mark.minutes
def test_a_folder_says_what_it_was_made_from_and_how_it_was_checked(place, caplog):
    assert export_run(place, "--format", "ctranslate2", "--beam_size", "2") == 0
    manifest = json.loads((place / "exported" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == "ctranslate2" and manifest["checked"] is True
    assert manifest["weights_sha256"] == sha256(RUN / "model.keras")
    assert manifest["decoding"]["beam_size"] == 2
    assert manifest["check"]["sentences"] == manifest["check"]["equal"]["greedy"] == 2  # the empty line is left out
    assert manifest["check"]["largest_difference_of_log_probabilities"] < 1e-5
    assert "2 of 2 by greedy search" in caplog.text and "with length_divisor power" in caplog.text
    assert sorted(path.name for path in place.iterdir()) == ["exported"]


def test_a_run_that_samples_is_exported_with_a_beam(place):
    copy = shutil.copytree(RUN, place / "run")
    config = copy / "config.yaml"
    text = config.read_text(encoding="utf-8")
    text = re.sub("search: beam", "search: sampling", re.sub("top_k: 0", "top_k: 10", text))
    config.write_text(text, encoding="utf-8")
    options = ["--format", "ctranslate2", "--sentences", "0"]
    assert export.main([str(copy), str(place / "exported"), *options]) == 0
    decoding = json.loads((place / "exported" / "manifest.json").read_text(encoding="utf-8"))["decoding"]
    assert (decoding["search"], decoding["top_k"]) == ("beam", 0)


@pytest.mark.minutes
def test_a_model_that_gives_other_numbers_is_not_written(place, capsys, monkeypatch):
    class Wrong:
        def __init__(self, *_):
            self.fixed_decoding = {}

        def translate(self, sources, beam, longest):
            return list(sources)

        def log_probabilities(self, sources, targets):
            return [np.full(1, -1.5) for _ in sources]

    from qkv.exchange import ctranslate2_model

    monkeypatch.setattr(ctranslate2_model, "LoadedCTranslate2", Wrong)
    assert export_run(place, "--format", "ctranslate2") == 2
    assert "the exported model gives log-probabilities that differ by" in capsys.readouterr().err
    assert not list(place.iterdir())


def test_without_sentences_nothing_is_checked(place, monkeypatch):
    monkeypatch.setattr(parity, "check_parity", None)
    monkeypatch.setattr(parity, "read_corpus", lambda settings: SimpleNamespace(source=["", ""]))
    assert export_run(place, "--format", "ctranslate2", "--quantization", "int8") == 0
    manifest = json.loads((place / "exported" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["checked"] is False and manifest["quantization"] == "int8"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "saved_model", "--quantization", "int8"], "--quantization: it has no effect with"),
        (["--format", "ctranslate2", "--at", "0,0,input"], "--at: it has no effect with --format ctranslate2"),
        (["--format", "saved_model", "--search", "sampling"], "--search: no such option"),
        (["--format", "saved_model", "--at", "7,0,input"], "of 2 heads, from 0; found '7,0,input'"),
        (["--format", "onnx"], "expected one of saved_model, ctranslate2, marian, argos, found 'onnx'"),
        (["--format", "argos", "--at", "0,0,input"], "--at: it has no effect with --format argos"),
        (["--format", "argos"], "data.tokenized: argos translates text as people write it, and cannot divide it into"),
        (["--format", "ctranslate2", "--sentences", "-1"], "expected an integer >= 0"),
        ([], "the following arguments are required: --format"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_nothing(place, capsys, options, message):
    if "7,0,input" in options:  # of which the model of the run must know
        pytest.importorskip("tensorflow_text")
    assert export_run(place, *options) == 2
    assert message in capsys.readouterr().err
    assert not list(place.iterdir())


ARGOS = ["--format", "argos", "--sentences", "0"]


@pytest.fixture
def plain_run(place):
    """A run whose training text counts as plain text."""
    copy = shutil.copytree(RUN, place / "run")
    text = (copy / "config.yaml").read_text(encoding="utf-8")
    text = re.sub("tokenized: true", "tokenized: false", re.sub("normalize:(\n    .*)+", "normalize: null", text))
    (copy / "config.yaml").write_text(text, encoding="utf-8")
    return copy


def test_a_package_of_argos_has_the_card_of_its_folder(place, plain_run):
    assert export.main([str(plain_run), str(place / "exported"), *ARGOS, "--quantization", "int8"]) == 0
    exported = place / "exported"
    manifest = json.loads((exported / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["quantization"]) == ("argos", "int8")
    assert sorted(path.name for path in exported.iterdir()) == ["README.md", "manifest.json", manifest["package"]]
    with ZipFile(exported / manifest["package"]) as package:
        (card,) = (package.read(name) for name in package.namelist() if name.endswith("/README.md"))
    assert card == (exported / "README.md").read_bytes()
    assert manifest["package"] in card.decode()


@pytest.mark.parametrize(
    ("setting", "changed", "message"),
    [
        (
            "normalize: null",
            "normalize: {lowercase: true}",
            "data.normalize.lowercase: argos cannot change the capitals",
        ),
        ("source_language: en", "source_language: ../en", "data.source_language: argos needs the code of a language"),
        ("target_language: fr", "target_language: f", "data.target_language: argos needs the code of a language"),
    ],
)
def test_what_argos_cannot_do_is_refused_by_the_name_of_the_setting(
    place, plain_run, capsys, setting, changed, message
):
    config = plain_run / "config.yaml"
    text = config.read_text(encoding="utf-8")
    assert setting in text
    config.write_text(text.replace(setting, changed), encoding="utf-8")
    assert export.main([str(plain_run), str(place / "exported"), *ARGOS]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "exported").exists()


@pytest.mark.parametrize("name", ["of[v1]", "of?", "of\\v"])
def test_a_saved_model_is_not_written_where_tensorflow_would_not_find_it(place, capsys, name):
    assert export.main([str(RUN), str(place / name / "exported"), "--format", "saved_model"]) == 2
    message = "TensorFlow cannot load a SavedModel from a path with *, ?, [ or \\; choose another folder"
    assert message in capsys.readouterr().err
    assert not list(place.iterdir())


def test_a_folder_with_files_is_left_alone(place, capsys):
    (place / "exported").mkdir()
    (place / "exported" / "thesis.txt").touch()
    assert export_run(place, "--format", "saved_model") == 2
    assert "exported: exists already; choose another name, or delete it" in capsys.readouterr().err
    assert (place / "exported" / "thesis.txt").exists()


def test_what_a_killed_export_left_is_deleted_by_the_next_one(place):
    left = temporary_path(place / "exported")
    shutil.copytree(RUN, left)
    assert export_run(place, "--format", "ctranslate2", "--sentences", "0") == 0
    assert sorted(path.name for path in place.iterdir()) == ["exported"]
    assert not (place / "exported" / "config.yaml").exists()

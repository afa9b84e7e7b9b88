"""A training text translated both ways: which models are trained on what, and which files they leave."""

import gzip
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from data import diversify
from data.diversify import main, turned
from qkv.config import load_run_config
from tests.support.journeys import run
from tests.support.tiny_runs import PAIRS, small_settings, write_small_corpus


@pytest.fixture
def config(tmp_path):
    corpus = write_small_corpus(tmp_path / "corpus")
    settings = small_settings(corpus, tmp_path / "runs", {"data.source_language": "en", "data.target_language": "fr"})
    (corpus / "train.en.gz").write_bytes(gzip.compress((corpus / "train.en").read_bytes()))
    text = {"source": str(corpus / "train.en.gz"), "target": str(corpus / "train.fr")}
    settings["data"]["train"] = [
        text,
        {"source": text["source"], "target": str(tmp_path / "translated" / "train.fr")},
        {"source": str(tmp_path / "translated" / "train.en"), "target": text["target"]},
    ]
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def in_this_process(command, *, input=b"", stdout=None, **settings):  # noqa: A002 - as `subprocess.run` has it
    """Runs a command that Python would run, without importing TensorFlow once more."""
    ended = run(Path.cwd(), *command[1:], given=input.decode())
    if stdout:
        stdout.write(ended.stdout.encode())
    return subprocess.CompletedProcess(command, ended.status)


@pytest.mark.minutes
def test_each_direction_is_trained_on_the_text_and_translates_it(config, capfd, monkeypatch):
    monkeypatch.setattr(diversify, "subprocess", SimpleNamespace(run=in_this_process))
    folder = config.parent
    options = ["--training.max_updates", "3", "--model.d_model", "4", "--decoding.beam_size", "1"]
    assert main([str(config), *options]) == 0
    for name, languages in (("forward", ("en", "fr")), ("backward", ("fr", "en"))):
        trained = load_run_config(folder / "runs" / f"own_{name}" / "config.yaml")
        assert (trained.data.source_language, trained.data.target_language) == languages
        sides = trained.data.training_corpora[0]
        assert [side.name.split(".")[1] for side in (sides.source, sides.target)] == [*languages]
        assert trained.data.validation.source.suffix == f".{languages[0]}"
        assert (trained.training.max_updates, trained.model.d_model) == (3, 4)
        assert len((folder / "translated" / f"train.{languages[1]}").read_text().splitlines()) == PAIRS["train"]
    capfd.readouterr()
    assert main([str(config), *options]) == 0  # all is there
    assert capfd.readouterr().out.count("is there") == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["train"].pop(),
        lambda data: data["train"].reverse(),
        lambda data: data["train"][1].update(source=data["train"][0]["target"]),
        lambda data: data.update(validation={"share": 0.1}),
    ],
)
def test_a_list_of_other_corpora_is_refused(config, change, capsys):
    settings = yaml.safe_load(config.read_text())
    change(settings["data"])
    config.write_text(yaml.safe_dump(settings))
    assert main([str(config)]) == 2
    assert "expected three corpora of files in data.train (the text," in capsys.readouterr().err
    assert not (config.parent / "runs").exists()


def test_a_model_that_cannot_be_trained_leaves_nothing(config, capfd):
    assert main([str(config), "--training.max_updates", "none"]) == 2
    assert "training.max_updates" in capfd.readouterr().err
    assert not (config.parent / "translated").exists()


def test_data_of_the_opposite_direction():
    data = {"source_language": "en", "target_language": "de", "words": {"source": "spaces"}, "tokenized": True}
    data |= {"validation": {"source": "a", "target": "b"}, "max_source_tokens": 9}
    expected = {"target_language": "en", "source_language": "de", "words": {"target": "spaces"}, "tokenized": True}
    expected |= {"validation": {"target": "a", "source": "b"}, "max_target_tokens": 9}
    assert json.dumps(turned(data)) == json.dumps(expected)

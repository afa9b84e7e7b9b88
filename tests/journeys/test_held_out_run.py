"""A run whose sets are held out from its training files, from training to evaluation."""

import csv
import json
import logging

import pandas as pd
import pytest

import evaluate
import train
from qkv.commands import align
from qkv.config.run import dump
from tests.support.tiny_runs import held_out_config, lines_of, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow, pytest.mark.usefixtures("loaded_once")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was trained in two parts; in between, its training files were replaced."""
    folder = tmp_path_factory.mktemp("held_out")
    corpus = write_small_corpus(folder / "text")
    config = folder / "run.yaml"
    config.write_text(dump(held_out_config(corpus, folder)), encoding="utf-8")
    assert train.main(["--config", str(config), "--training.max_updates", "3"]) == 0
    for file in corpus.iterdir():
        file.write_text("another text\n", encoding="utf-8")
    assert train.main(["--resume", str(folder / "run"), "--training.max_updates", "6"]) == 0
    return folder / "run"


def test_training_goes_on_with_the_text_of_its_beginning(run):
    assert pd.read_csv(run / "history.csv")["update"].tolist() == [3, 6]
    assert not (run / "held_out" / "train.source").exists()


@pytest.mark.parametrize(("name", "pairs"), [("validation", 12), ("test", 7)])
def test_held_out_sets_are_evaluated_with_the_links_of_their_pairs(name, pairs, run):
    assert evaluate.main([str(run), "--set", name]) == 0
    folder = run / "evaluations" / name
    table = pd.read_csv(folder / "translations.tsv", sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
    assert table["source"].tolist() == lines_of(run / "held_out" / f"{name}.source")
    assert table["reference"].tolist() == lines_of(run / "held_out" / f"{name}.target")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["alignment"]["sentences"] == pairs == len(table)


def test_held_out_sets_are_aligned(run, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert align.main([str(run), "--set", "test", "--at", "0,0,output"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7

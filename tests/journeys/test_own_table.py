"""Somebody has one table of two columns, and copies `configs/own.yaml` as the README says."""

import csv
import json

import pytest

from tests.support import ROOT
from tests.support.journeys import run
from tests.support.text import demo_pairs, write_table

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

KNOBS = {"vocabulary_size: 4000": "vocabulary_size: 1000", "share: 0.01": "share: 0.05"}  # as its table advises
QUICK = ["--training.max_minutes", "0.2", "--model.d_model", "32", "--model.d_ff", "64"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the table and the config, in which the run has been trained and evaluated."""
    folder = tmp_path_factory.mktemp("table")
    write_table(folder / "my/pairs.tsv", demo_pairs(4000))
    text = (ROOT / "configs/own.yaml").read_text(encoding="utf-8")
    assert "my/pairs.tsv" in text
    for knob, for_five_thousand in KNOBS.items():
        assert knob in text
        text = text.replace(knob, for_five_thousand)
    (folder / "my.yaml").write_text(text, encoding="utf-8")
    trained = run(folder, "train.py", "--config", "my.yaml", *QUICK)
    (folder / "trained.txt").write_text(trained.stdout + trained.stderr, encoding="utf-8")
    return folder


def test_the_doctor_finds_nothing_wrong_with_the_text(folder):
    lines = run(folder, "-m", "qkv", "doctor", "my.yaml", *QUICK).stdout.splitlines()
    about_text = [line for line in lines if line.startswith(("text", "overlap", "corpus"))]
    assert about_text and not any("LOOK" in line for line in about_text), about_text


def test_the_rate_ends_with_the_minutes_and_the_model_has_learnt(folder):
    with (folder / "runs/my/history.csv").open(encoding="utf-8") as lines:
        rows = [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(lines)]
    assert rows[-1]["learning_rate"] == 0
    assert len(rows) > 1  # ten validations where updates are fast: how far the loss falls is the processor's
    assert rows[-1]["val_loss"] < rows[0]["val_loss"]


def test_no_sentence_is_in_two_sets(folder):
    overlap = json.loads((folder / "runs/my/corpus_report.json").read_text(encoding="utf-8"))["overlap"]
    assert set(overlap) == {"validation", "test"}
    assert all(report[key] == 0 for report in overlap.values() for key in ("pairs", "sources", "targets")), overlap


def test_the_printed_next_command_gives_scores_attention_and_a_page(folder):
    command = next(line.split() for line in (folder / "trained.txt").read_text().splitlines() if "evaluate.py" in line)
    run(folder, *command[1:])
    evaluation = folder / "runs/my/evaluations/test"
    scores = json.loads((evaluation / "metrics.json").read_text(encoding="utf-8"))
    translations = (evaluation / "translations.tsv").read_text(encoding="utf-8").splitlines()
    assert scores["sentences"] == len(translations) - 1 > 10
    assert (evaluation / "viewer.html").is_file() and (evaluation / "attention").is_dir()


def test_the_same_command_again_says_that_it_is_trained(folder):
    again = run(folder, "train.py", "--config", "my.yaml", *QUICK)
    assert "trained already" in again.stdout + again.stderr

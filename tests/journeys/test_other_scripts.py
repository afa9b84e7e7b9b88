"""Somebody translates between languages that are not written like English: Hebrew-like into Chinese-like text."""

import json

import pytest

from tests.support.journeys import run
from tests.support.text import chinese_like, demo_pairs, hebrew_like

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

CONFIG = """\
data:
  source_language: he
  target_language: zh
  train: {source: train.he, target: train.zh}
  validation: {source: validation.he, target: validation.zh}
  test: {source: test.he, target: test.zh}
tokenizer: {vocabulary_size: 800}
batches: {batch_tokens: 1500, length_multiple: 4}
model: {d_model: 64, num_heads: 2, d_ff: 128, encoder_layers: 1, decoder_layers: 1, dropout: 0.0}
training: {max_updates: 160, schedule: linear, learning_rate: 0.008, warmup_updates: 40, validate_every_updates: 160}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an evaluated run."""
    folder = tmp_path_factory.mktemp("scripts")
    pairs = demo_pairs(4200)
    for name, rows in {"validation": pairs[:100], "test": pairs[100:200], "train": pairs[200:]}.items():
        for language, write in (("zh", chinese_like), ("he", hebrew_like)):
            text = "".join(f"{write(english)}\n" for english, _ in rows)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    (folder / "other.yaml").write_text(CONFIG, encoding="utf-8")
    run(folder, "train.py", "--config", "other.yaml")
    run(folder, "evaluate.py", "runs/other")
    return folder


def test_scores_say_what_the_translations_are_worth(folder):
    scores = json.loads((folder / "runs/other/evaluations/test/metrics.json").read_text(encoding="utf-8"))
    assert "tok:zh" in scores["signatures"]["bleu"]
    assert scores["bleu"] > 30, scores


def test_tables_and_links_are_of_units_that_a_reader_can_use(folder):
    text = ["--source", "test.he", "--target", "test.zh"]
    ended = run(folder, "-m", "qkv", "align", "runs/other", *text, "--at", "0,mean,output")
    links = ended.stdout.splitlines()
    assert len(links) == 100
    most = {side: max(int(link.split("-")[side]) for line in links for link in line.split()) for side in (0, 1)}
    assert most[0] > 1 and most[1] > 1  # one "word" a sentence would leave 0-0 alone
    assert "subwords" in ended.stderr  # Chinese has no words between spaces


def test_the_page_lets_each_text_choose_its_direction(folder):
    page = (folder / "runs/other/evaluations/test/viewer.html").read_text(encoding="utf-8")
    assert 'dir="auto"' in page or '.dir = "auto"' in page

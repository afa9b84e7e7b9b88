"""What epochs see of the training text: one segmentation, or several that spell the same sentences."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.text import prepare
from qkv.text.corpora.provenance import data_sha256, recorded_sha256
from qkv.text.prepare import prepare_text
from qkv.text.tokens.bpe_dropout import SEGMENTATIONS
from qkv.text.tokens.special_tokens import EOS
from qkv.text.training_text import load_text
from qkv.training.batches import TrainingBatches
from tests.support import ROOT, files_below
from tests.support.tiny_runs import small_config, small_settings, write_small_corpus

JOINED = {
    "data.joined_pairs": 1.0,
    "data.max_source_tokens": 90,
    "data.max_target_tokens": 90,
    "model.max_positions": 91,
}
DROPOUT = JOINED | {"tokenizer.bpe_dropout": 0.3}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    corpus = write_small_corpus(folder)

    def prepare(name, changes):
        config = small_config(corpus, folder, name, changes)
        run = RunDirectory.create(folder / name)
        return config, prepare_text(config, run), load_text(config, run)

    return prepare("usual", JOINED), prepare("dropout", DROPOUT), prepare("again", DROPOUT)


def spelled(text, side):
    return [text.tokenizer.decode([row.tolist() for row in pairs[side]]) for pairs in text.segmentations]


def test_segmentations_spell_the_same_sentences_within_the_longest_lengths(prepared):
    (_, usual, _), (config, text, _), _ = prepared
    assert (len(usual.segmentations), len(text.segmentations)) == (1, SEGMENTATIONS)
    number = len(text.segmentations[0].source)
    report = json.loads((config.run.directory / "dropout" / "corpus_report.json").read_text())
    kept = report["kept"]
    assert number == kept + report["joined"] and 10 < report["joined"] < kept
    for side in (0, 1):
        first, *others = spelled(text, side)
        assert all(first == other for other in others)
        assert first[:kept] == spelled(usual, side)[0][:kept]
        ids = [[tuple(row) for row in pairs[side]] for pairs in text.segmentations]
        assert 0 < sum(a != b for a, b in zip(ids[0], ids[1], strict=True)) <= number
        assert max(pairs[side].lengths.max() for pairs in text.segmentations) <= config.data.max_source_tokens
    found, before = (one.segmentations[0].source.lengths[:kept].mean() for one in (text, usual))
    assert found > before


def test_segmentations_are_settled_by_the_seed_and_read_back(prepared):
    _, (_, text, loaded), (_, again, _) = prepared
    for one, other, third in zip(text.segmentations, loaded.segmentations, again.segmentations, strict=True):
        for side in (0, 1):
            np.testing.assert_array_equal(one[side].ids, other[side].ids)
            np.testing.assert_array_equal(one[side].ids, third[side].ids)


def test_epochs_take_segmentations_in_turn(prepared):
    text = prepared[1][1]
    batches = TrainingBatches(
        text.segmentations, tf.distribute.get_strategy(), batch_tokens=600, length_multiple=1, seed=1
    )
    for epoch in (0, 2, SEGMENTATIONS):
        expected = sorted(tuple(row) for row in text.segmentations[epoch % SEGMENTATIONS].source)
        found = [row[: row.tolist().index(EOS)] for batch in batches.epoch(epoch) for row in batch.source.numpy()]
        assert sorted(map(tuple, found)) == expected


def test_text_that_changed_since_the_run_began_is_noticed(tmp_path, caplog):
    corpus = write_small_corpus(tmp_path / "text")
    config = small_config(corpus, tmp_path, "run")
    run = RunDirectory.create(tmp_path / "run")
    prepare_text(config, run)
    load_text(config, run)
    assert "has changed" not in caplog.text
    recorded = recorded_sha256(run)
    assert recorded == data_sha256(config.data, run)
    (corpus / "train.en").write_text("another text\n" * 120)
    load_text(config, run)
    assert "train.en has changed since the run began; training goes on with the text as it was" in caplog.text
    assert recorded_sha256(run) == recorded != data_sha256(config.data, run)
    lines = (corpus / "validation.fr").read_text(encoding="utf-8").splitlines()
    (corpus / "validation.fr").write_text("\n".join(["un chat", *lines[1:]]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"validation.fr has changed since the run began.*put the old file back"):
        load_text(config, run)


def test_a_preparation_that_was_cut_short_keeps_the_tokenizer_of_the_same_text(tmp_path, monkeypatch):
    config = small_config(write_small_corpus(tmp_path / "text"), tmp_path, "run")
    run = RunDirectory.create(tmp_path / "run")

    def cut_short():
        with monkeypatch.context() as patch:
            patch.setattr(prepare, "select_training_pairs", lambda *arguments, **options: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                prepare_text(config, run)
        return run.tokenizer.stat().st_mtime_ns

    made = cut_short()
    assert not run.corpus_report.exists()
    assert cut_short() == made
    run.preparation.write_text('{"other": "text"}')
    again = cut_short()
    assert again != made
    prepare_text(config, run)
    assert run.tokenizer.stat().st_mtime_ns == again
    assert not run.preparation.exists() and run.corpus_report.is_file()


PREPARE = """
import sys
from pathlib import Path
from qkv.config import load_run_config
from qkv.files.run_directory import RunDirectory
from qkv.text import shards
from qkv.text.corpora import corpus
from qkv.text.prepare import prepare_text
from qkv.text.tokens import tokenizer
from qkv.text.tokens.subword_models import SentencePieceModel

tokenizer.load_subword_model = SentencePieceModel  # starts sooner than TensorFlow Text
corpus.SHARD_PAIRS = 64
shards.usable_cores = lambda: 1
print("started", flush=True)
prepare_text(load_run_config(sys.argv[1]), RunDirectory(Path(sys.argv[2])))
"""


@pytest.mark.minutes
def test_a_preparation_killed_five_times_ends_with_the_same_bytes(tmp_path):
    corpus = write_small_corpus(tmp_path / "text")
    for suffix in ("en", "fr"):
        lines = (ROOT / "data" / "demo" / f"train.{suffix}").read_text(encoding="utf-8").splitlines(keepends=True)
        (corpus / f"train.{suffix}").write_text("".join(lines[:6000]), encoding="utf-8")
    settings = small_settings(
        corpus, tmp_path, {"data.train.alignments": None, "data.filters": {"near_duplicates": True}}
    )
    (tmp_path / "config.yaml").write_text(dump_yaml(settings), encoding="utf-8")

    def count_shards(name):  # while they come and go, which `rglob` does not bear
        return sum(file.endswith(".npz") for _, _, files in os.walk(tmp_path / name) for file in files)

    def prepare(name, seconds):
        (tmp_path / name).mkdir(exist_ok=True)
        command = [sys.executable, "-c", PREPARE, tmp_path / "config.yaml", tmp_path / name]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None and process.stdout.readline() == b"started\n"
            started = count_shards(name)
            deadline = time.monotonic() + seconds
            # Killed a few shards later, so that each start comes a little further.
            while process.poll() is None and time.monotonic() < deadline:
                if name == "killed" and count_shards(name) > started + 15:
                    process.kill()
                time.sleep(0.002)
            process.kill()
        return process.wait()

    assert prepare("whole", 600) == 0
    kills = 0
    while (status := prepare("killed", 600)) != 0:
        assert status == -signal.SIGKILL and kills < 30
        kills += 1
    assert kills >= 5
    whole, killed = (files_below(tmp_path / name) for name in ("whole", "killed"))
    assert whole.keys() == killed.keys() and "corpus_report.json" in whole
    assert [name for name in whole if whole[name] != killed[name]] == []


def test_invisible_characters_of_the_training_text_are_counted_and_stay(tmp_path, caplog):
    corpus = write_small_corpus(tmp_path / "text")
    path = corpus / "train.en"
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    path.write_text(f"{first[:2]}\xad\u200b{first[2:]}\xad\n{rest}", encoding="utf-8")
    run = RunDirectory.create(tmp_path / "run")
    with caplog.at_level(logging.INFO):
        text = prepare_text(small_config(corpus, tmp_path, "run"), run)
    report = json.loads(run.corpus_report.read_text(encoding="utf-8"))
    assert report["invisible"] == {"source": {"U+00AD": 2, "U+200B": 1}, "target": {}}
    assert "invisible characters in the training text: source U+00AD (2), U+200B (1)" in caplog.messages
    assert spelled(text, 0)[0][0] == f"{first[:2]}\xad\u200b{first[2:]}\xad"
    assert not {"\xad", "\u200b"} & {*text.tokenizer.unread.left_out} and "\u200d" in text.tokenizer.unread.left_out

"""Sets that are held out from the training files stay with the run, whatever becomes of these files."""

import json
import logging

import pytest

from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.text.corpora.formats import read_corpus
from qkv.text.corpora.held_out import hold_out_sets, with_held_out_files
from qkv.text.corpora.provenance import recorded_sha256
from qkv.text.prepare import prepare_text
from qkv.text.training_text import load_text
from tests.support.tiny_runs import held_out_config, lines_of, small_config, write_small_corpus


@pytest.fixture
def corpus(tmp_path):
    return write_small_corpus(tmp_path / "text")


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "run")


def test_a_run_keeps_its_held_out_pairs_with_their_links_and_reports_where_they_were(corpus, run):
    config = held_out_config(corpus, run.root.parent)
    text = prepare_text(config, run)
    report = json.loads(run.corpus_report.read_text(encoding="utf-8"))
    assert {name: part["pairs"] for name, part in report["held_out"].items()} == {
        "validation": 12,
        "test": 7,
        "left_out": 120 - 12 - 7 - report["pairs"],
    }
    for name in ("validation", "test"):
        rows = [line - 1 for line in report["held_out"][name]["lines"]]
        for kept, suffix in (("source", "en"), ("target", "fr"), ("alignments", "align")):
            given = lines_of(corpus / f"train.{suffix}")
            assert lines_of(run.held_out / f"{name}.{kept}") == [given[row] for row in rows]
        assert report["overlap"][name] == {"pairs": 0, "sources": 0, "targets": 0, "of": len(rows), "lines": []}
    assert list(text.validation.source) == lines_of(run.held_out / "validation.source")
    assert len(text.segmentations[0].source) == report["kept"] <= report["pairs"]


def test_only_the_rest_is_trained_on(corpus, run):
    config = held_out_config(corpus, run.root.parent)
    files = read_corpus(config.data.train)
    rows, held_out = hold_out_sets(config, files, run)
    out = {line for part in held_out.values() for line in part["lines"]}
    rest = [line for line in range(1, 121) if line not in out]
    pairs = files.select(rows)
    assert list(pairs.line_numbers) == rest and len(pairs) == 120 - len(out)
    assert list(pairs.source) == [lines_of(corpus / "train.en")[line - 1] for line in rest]


def test_the_rest_is_encoded_with_its_own_links(corpus, tmp_path):
    guided = {"training.guided_attention.weight": 0.1}
    sets = {"data.validation": {"share": 0.1}, "data.test": {"pairs": 7}}
    run = RunDirectory.create(tmp_path / "held_out")
    prepare_text(small_config(corpus, tmp_path, "held_out", guided | sets), run)
    held_out = json.loads(run.corpus_report.read_text(encoding="utf-8"))["held_out"]
    out = {line for part in held_out.values() for line in part["lines"]}
    for suffix in ("en", "fr", "align"):
        rest = [line for number, line in enumerate(lines_of(corpus / f"train.{suffix}"), 1) if number not in out]
        (corpus / f"train.{suffix}").write_text("".join(f"{line}\n" for line in rest), encoding="utf-8")
    plain = RunDirectory.create(tmp_path / "plain")
    prepare_text(small_config(corpus, tmp_path, "plain", guided), plain)
    for name in ("train.links.ids.npy", "train.links.starts.npy", "train.source.ids.npy"):
        assert (run.encoded / name).read_bytes() == (plain.encoded / name).read_bytes()


def test_all_pairs_are_trained_on_where_the_sets_have_files_of_their_own(corpus, run):
    files = {name: {"source": f"{corpus}/test.en", "target": f"{corpus}/test.fr"} for name in ("validation", "test")}
    config = held_out_config(corpus, run.root.parent, **files)
    assert hold_out_sets(config, read_corpus(config.data.train), run) == (None, {})
    assert not run.held_out.exists()
    assert with_held_out_files(config, run) == config


def test_held_out_sets_outlive_the_training_files(corpus, run, caplog):
    config = held_out_config(corpus, run.root.parent)
    before = prepare_text(config, run)
    for file in corpus.iterdir():
        file.write_text("something else\n", encoding="utf-8")
    after = load_text(config, run)
    assert list(after.validation.pairs()) == list(before.validation.pairs())
    assert "train.en has changed since the run began; training goes on with the text as it was" in caplog.text
    test = read_corpus(with_held_out_files(config, run).data.test)
    assert len(test) == 7


def test_a_held_out_set_that_was_edited_is_refused(corpus, run):
    config = held_out_config(corpus, run.root.parent)
    prepare_text(config, run)
    assert {"held_out/validation.source", "held_out/test.target"} < set(recorded_sha256(run))
    path = run.held_out / "validation.target"
    path.write_text("un chat\n" * 12, encoding="utf-8")
    with pytest.raises(InputError, match=r"held_out/validation.target has changed since the run began"):
        load_text(config, run)


def test_another_number_of_alignments_than_pairs_is_refused(corpus, run):
    (corpus / "train.align").write_text("0-0\n" * 119)
    config = held_out_config(corpus, run.root.parent)
    with pytest.raises(InputError, match=r"train.align: 119 lines of alignments for the 120 pairs"):
        hold_out_sets(config, read_corpus(config.data.train), run)


def test_sets_of_few_pairs_are_warned_of(corpus, run, caplog):
    config = held_out_config(corpus, run.root.parent)
    with caplog.at_level(logging.WARNING):
        hold_out_sets(config, read_corpus(config.data.train), run)
    assert "data.test has 7 pairs; scores of so few say little" in caplog.text

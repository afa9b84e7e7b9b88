"""Files that have not changed are not read again, and a change is seen."""

import os

import pytest

from qkv.files.json import write_json
from qkv.files.run_directory import RunDirectory
from qkv.text.corpora import provenance
from qkv.text.corpora.provenance import check_prepared, check_settings, data_sha256, record_states
from tests.support.tiny_runs import small_config, write_small_corpus


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run, its data, and the files that were read to hash them."""
    corpus = write_small_corpus(tmp_path / "text")
    data = small_config(corpus, tmp_path, "run").data
    run = RunDirectory.create(tmp_path / "run")
    read, sha256 = [], provenance.sha256
    monkeypatch.setattr(provenance, "sha256", lambda path: (read.append(path.name), sha256(path))[1])
    return corpus, data, run, read


def make_old(folder):
    for path in folder.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_a_second_start_reads_no_file_and_a_changed_one_is_seen(run, monkeypatch):
    corpus, data, folder, read = run
    make_old(corpus)
    monkeypatch.setattr(provenance, "SETTLED_NS", 0)
    digests = data_sha256(data, folder)
    assert len(read) == len(digests) == 9
    record_states(data, folder, digests)
    read.clear()
    assert data_sha256(data, folder) == digests and read == []
    text = (corpus / "train.en").read_bytes()
    (corpus / "train.en").write_bytes(text[:-2] + b"x\n")  # of the same size, and as old
    os.utime(corpus / "train.en", (1_000_000_000, 1_000_000_000))
    changed = data_sha256(data, folder)
    assert read == ["train.en"]
    assert [name for name in digests if changed[name] != digests[name]] == [str(corpus / "train.en")]


def test_a_file_that_has_just_been_changed_is_not_trusted(run):
    _, data, folder, read = run
    digests = data_sha256(data, folder)
    record_states(data, folder, digests)
    read.clear()
    assert data_sha256(data, folder) == digests and len(read) == 9


@pytest.mark.parametrize("damage", ["{", "[]", '{"train.en": [1, 2, 3]}'])
def test_damaged_records_are_no_obstacle(run, damage):
    _, data, folder, _ = run
    digests = data_sha256(data, folder)
    folder.encoded.mkdir()
    folder.file_states.write_text(damage.replace("train.en", next(iter(digests))))
    assert data_sha256(data, folder) == digests


def test_times_of_files_and_shards_are_no_part_of_what_workers_compare(tmp_path):
    run = RunDirectory.create(tmp_path / "run")
    (run.encoded / "train").mkdir(parents=True)
    for file in (run.tokenizer, run.encoded / "train" / "source.npy", run.file_states):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    before = provenance.prepared_sha256(run)
    run.file_states.write_text("2")
    run.shards.mkdir()
    (run.shards / "1.npz").write_text("2")
    assert provenance.prepared_sha256(run) == before
    (run.encoded / "train" / "source.npy").write_text("2")
    assert provenance.prepared_sha256(run) != before


def test_a_report_without_settings_and_digests_is_accepted(tmp_path):
    """There is nothing to compare with."""
    run = RunDirectory.create(tmp_path / "run")
    run.tokenizer.parent.mkdir()
    run.tokenizer.touch()
    for report in ({"sha256": {}}, {"settings": None, "prepared_sha256": []}, None):
        write_json(run.corpus_report, report)
        check_settings(small_config(tmp_path, tmp_path, "run"), run)
        check_prepared(run)

"""A change of what a run was prepared from, or of what was prepared, is seen."""

import pytest

from qkv.config.run import load_trained_run, make_run_config
from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.files.json import write_json
from qkv.files.run_directory import RunDirectory
from qkv.text.corpora import provenance
from qkv.text.corpora.provenance import check_prepared, check_same_settings
from tests.support.tiny_runs import small_config, small_settings


def test_shards_are_no_part_of_what_workers_compare(tmp_path):
    run = RunDirectory.create(tmp_path / "run")
    (run.encoded / "train").mkdir(parents=True)
    for file in (run.tokenizer, run.encoded / "train" / "source.npy"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    before = provenance.prepared_sha256(run)
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
        check_same_settings(small_config(tmp_path, tmp_path, "run"), run)
        check_prepared(run)


def test_a_run_of_an_older_version_loads_without_its_switch_for_typed_text(tmp_path):
    """Its config and its report name `europarl`, which is off unless the run's text is that of data/manythings."""
    settings = small_settings(tmp_path, tmp_path, {"data.tokenized": True})
    run = RunDirectory.create(tmp_path / "run")
    for switched_on in (False, True):
        settings["data"]["normalize"] = {"lowercase": True, "europarl": switched_on}
        write_json(run.corpus_report, {"settings": settings})
        run.config.write_text(dump_yaml(settings), encoding="utf-8")
        if switched_on:
            with pytest.raises(InputError, match=r"europarl is not a setting any more; delete it\..*config\.yaml:\d+"):
                load_trained_run(run)
            del settings["data"]["normalize"]["europarl"]
            run.config.write_text(dump_yaml(settings), encoding="utf-8")
        config = load_trained_run(run)
        assert config == make_run_config(
            {**settings, "data": {**settings["data"], "normalize": {"lowercase": True}}}, {}, "run"
        )
        check_same_settings(config, run)

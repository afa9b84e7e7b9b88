"""The size of batches of a run that leaves it open: found once, and kept."""

import json

import numpy as np
import pytest

from qkv.run import train
from qkv.training import build
from tests.support.run_contents import state_at
from tests.support.tiny_runs import small_config, write_small_corpus


def progress_of(run, update):
    with np.load(run / "checkpoints" / f"update-{update:08d}.npz") as archive:
        return json.loads(str(archive["progress"]))


@pytest.mark.minutes
def test_a_run_goes_on_with_the_batches_that_it_found(tmp_path, monkeypatch, caplog):
    found = []

    def find(step, batches, limit):
        found.append(limit)
        return 700

    monkeypatch.setattr(build, "find_batch_tokens", find)
    write_small_corpus(tmp_path / "corpus")
    changes = {"batches.batch_tokens": "auto", "model.dropout": 0.1, "training.keep_checkpoints": 9}

    def make(name, updates, **more):
        limits = {"training.max_updates": updates, "training.validate_every_updates": 4}
        return small_config(tmp_path / "corpus", tmp_path / "runs", name, changes | limits | more)

    with caplog.at_level("INFO"):
        assert train(make("stopped", 2)) == 0
        assert train(make("stopped", 4), resume=tmp_path / "runs" / "stopped") == 0
    assert len(found) == 1
    assert "batches.batch_tokens auto: 700, as found when the run began" in caplog.text
    assert "computing on the processor" in caplog.text
    assert train(make("given", 4, **{"batches.batch_tokens": 700})) == 0
    stopped, given = (progress_of(tmp_path / "runs" / name, 4) for name in ("stopped", "given"))
    assert (stopped["batch_tokens"], given["batch_tokens"]) == (700, None)
    assert (stopped["epoch"], stopped["batch"]) == (given["epoch"], given["batch"])
    np.testing.assert_equal(*(state_at(tmp_path / "runs" / name, 4) for name in ("stopped", "given")))
    assert "auto" in (tmp_path / "runs" / "stopped" / "config.yaml").read_text(encoding="utf-8")

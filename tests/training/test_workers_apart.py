"""Trainings by two workers that share no folder, of which one has another file than the other."""

import shutil
from pathlib import Path

import pytest

from qkv.config.run import dump
from qkv.run import train
from tests.support import ROOT
from tests.support.processes import clusters, finish, start
from tests.support.tiny_runs import small_config, write_small_corpus

pytestmark = pytest.mark.minutes

CHANGES = {
    "batches.batch_tokens": 64,
    "training.max_updates": 12,
    "training.validate_every_updates": 6,
    "training.keep_checkpoints": 9,
}


def write_config(folder):
    """The same config for all, whose paths are relative."""
    config = small_config(Path("corpus"), Path("runs"), "apart", CHANGES)
    (folder / "apart.yaml").write_text(dump(config), encoding="utf-8")
    return config


def said_by_two(folders):
    """Starts a worker in each folder, which must end with status 2, and returns what both print."""
    tasks = zip(folders, clusters(2), strict=True)
    processes = [start([ROOT / "train.py", "--config", "apart.yaml"], own, task, cwd=own) for own, task in tasks]
    finish(processes, folders, status=2)
    return [(folder / "output").read_text() for folder in folders]


def test_a_worker_with_another_corpus_ends_both_with_the_name_of_the_file(tmp_path):
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        write_small_corpus(folder / "corpus")
        write_config(folder)
    text = folders[1] / "corpus" / "train.fr"
    text.write_text("".join(reversed(text.read_text(encoding="utf-8").splitlines(keepends=True))), "utf-8")
    for said in said_by_two(folders):
        assert "error: corpus/train.fr: worker 1 (" in said
    assert not (folders[0] / "runs" / "apart").exists()


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with a corpus and a run that has not ended."""
    folder = tmp_path_factory.mktemp("begun")
    write_small_corpus(folder / "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train(write_config(folder)) == 0
    for name in ("manifest.json", "model.keras", "checkpoints/update-00000012.npz"):
        (folder / "runs" / "apart" / name).unlink()
    return folder


def test_a_worker_without_the_checkpoint_ends_both_with_the_name_of_the_file(begun, tmp_path):
    """It alone finds that out, and tells the other."""
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        shutil.copytree(begun, folder)
    (folders[1] / "runs" / "apart" / "checkpoints" / "update-00000006.npz").unlink()
    for said in said_by_two(folders):
        assert (
            "update-00000006.npz: worker 1 (" in said and "does not have the checkpoint from which worker 0 (" in said
        )

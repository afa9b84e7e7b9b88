"""The folder of a run while it is trained: created, locked, and deleted again where nothing was trained."""

import pytest

from pipeline.errors import InputError
from pipeline.run_directory import RunDirectory
from pipeline.training.run_folder import delete_records, open_run_folder


def test_a_new_run_that_fails_before_its_first_checkpoint_leaves_no_folder(tmp_path):
    with pytest.raises(KeyError), open_run_folder(tmp_path / "run", None, writes=True) as run:
        run.config.touch()
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_new_run_that_fails_after_a_checkpoint_keeps_its_folder(tmp_path):
    with pytest.raises(KeyError), open_run_folder(tmp_path / "run", None, writes=True) as run:
        run.checkpoints.mkdir()
        (run.checkpoints / "update-00000001.npz").touch()
        raise KeyError
    assert (run.checkpoints / "update-00000001.npz").is_file()


def test_a_resumed_run_that_fails_keeps_its_folder(tmp_path):
    created = RunDirectory.create(tmp_path / "run")
    created.config.touch()
    with pytest.raises(KeyError), open_run_folder(tmp_path / "other", created.root, writes=True) as run:
        raise KeyError
    assert run.root == created.root and run.config.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_only_the_worker_that_writes_locks_the_run(tmp_path):
    run = RunDirectory.create(tmp_path / "run")
    run.config.touch()
    with open_run_folder(run.root, run.root, writes=True):
        with open_run_folder(run.root, run.root, writes=False):
            pass
        with pytest.raises(InputError, match="trains this run"), open_run_folder(run.root, run.root, writes=True):
            pass


def test_a_worker_that_writes_nothing_has_a_temporary_folder_for_a_new_run(tmp_path):
    with open_run_folder(tmp_path / "run", None, writes=False) as run:
        assert run.root.is_dir() and run.root.parent != tmp_path
    assert not run.root.exists() and not list(tmp_path.iterdir())


def test_records_of_a_training_without_a_checkpoint_are_deleted_and_prepared_text_is_not(tmp_path):
    run = RunDirectory(tmp_path)
    run.history.touch()
    run.corpus_report.touch()
    for folder in (run.tensorboard, run.probes, run.encoded):
        folder.mkdir()
        (folder / "file").touch()
    delete_records(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus_report.json", "encoded"]

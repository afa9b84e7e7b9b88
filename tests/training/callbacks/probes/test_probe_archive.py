"""The attention over the probes is archived at validations and at updates that the config names."""

import pytest

from qkv.inspection.archive import probe_archives
from qkv.training.callbacks import probes as probe_archive
from qkv.training.callbacks.probes import ProbeArchive


class Writer:
    """Leaves an empty folder."""

    def __init__(self, folder, manifest):
        assert folder.name == f"update-{manifest['update']:08d}"
        folder.mkdir(parents=True)

    def __enter__(self):
        return []

    def __exit__(self, *error):
        pass


class Recorder:
    def record_references(self, sources, references):
        return zip(sources, references, strict=True)


@pytest.fixture
def archives_of(tmp_path, monkeypatch):
    monkeypatch.setattr(probe_archive, "ArchiveWriter", Writer)

    def archives_of(first, last, validations=(), probes=(("a", "b"),), updates=(0, 2, 5)):
        """Trains from one update to another, and lists the updates that are archived then."""
        callback = ProbeArchive(tmp_path, Recorder(), probes, first, updates)
        callback.on_train_begin()
        for update in range(first + 1, last + 1):
            callback.on_train_batch_end(update - 1)
            if update in validations:
                callback.on_test_end({"update": update})
        return [update for _, update in probe_archives(tmp_path)]

    return archives_of


def test_named_updates_and_validations_are_archived_and_update_0_is_the_untrained_model(archives_of):
    assert archives_of(0, 6, validations=[3, 5]) == [0, 2, 3, 5]


def test_a_resumed_run_archives_the_rest_and_forgets_what_came_after_its_checkpoint(archives_of):
    archives_of(0, 5)
    assert archives_of(3, 4) == [0, 2]
    assert archives_of(4, 8, validations=[8]) == [0, 2, 5, 8]


def test_without_named_updates_only_validations_are_archived(archives_of):
    assert archives_of(0, 6, validations=[3], updates=()) == [3]


def test_probes_without_references_are_not_archived(archives_of):
    assert archives_of(0, 6, validations=[3], probes=[("a", None)]) == []

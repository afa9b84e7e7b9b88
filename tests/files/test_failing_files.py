"""Whichever write fails, and however: nothing is lost, and no half-written file is read."""

import json

import keras
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.evaluation.resumable import evaluation_folder
from qkv.files.atomic import replaced_when_done, write_atomically
from qkv.files.json import write_json
from qkv.files.run_directory import EvaluationDirectory, RunDirectory
from qkv.inspection.archive import ArchiveWriter, AttentionArchive
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.training.callbacks.progress_line import History
from qkv.training.checkpoints import Checkpoints, load_checkpoint
from qkv.training.progress import Progress
from tests.support.failing_files import KINDS, Killed, every_failure, failing
from tests.support.viewer import make_record

pytestmark = pytest.mark.minutes


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_failure_leaves_what_it_is_to_leave(tmp_path, kind):
    path = tmp_path / "file"
    with failing(tmp_path, 2, kind) as failed, pytest.raises((OSError, Killed)):  # noqa: SIM117
        with path.open("wb") as file:
            file.write(b"first")
            file.write(b"second")
    assert failed == [2]
    assert path.read_bytes() == {"no space": b"first"}.get(kind, b"firstsec")
    path.write_bytes(b"as always")


def test_a_failed_write_leaves_the_old_file_or_the_new_one(tmp_path):
    def prepare(folder):
        write_atomically(folder / "file", b"old")

    def action(folder):
        write_atomically(folder / "file", b"new and longer")

    for folder in every_failure(tmp_path / "try", prepare, action):
        assert (folder / "file").read_bytes() in (b"old", b"new and longer")


BEST = (1, 3)  # of three updates: at the second the best stays, at the third it is replaced


def model_and_optimizer():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def test_the_last_checkpoint_written_is_intact_after_a_failure(tmp_path):
    model, optimizer = model_and_optimizer()
    written = []

    def save(folder, update):
        model.set_weights([np.full_like(weight, update) for weight in model.get_weights()])
        progress = Progress(update=update, history=[{"update": update}], best_metric=1.0, best_update=update)
        Checkpoints(folder / "checkpoints", 1).save(model, optimizer, progress, best=update in BEST)
        History(folder / "history.csv", progress).on_test_end()
        written.append(update)

    def prepare(folder):
        written.clear()
        save(folder, 1)

    def action(folder):
        for update in (2, 3):
            save(folder, update)

    for folder in every_failure(tmp_path / "try", prepare, action):
        checkpoints = Checkpoints(folder / "checkpoints", 1)
        progress = checkpoints.restore(model, optimizer)
        assert progress.update in (written[-1], written[-1] + 1)
        assert all((weight == progress.update).all() for weight in model.get_weights())
        RunDirectory(folder).delete_leftovers()  # as whoever goes on does
        assert not list(checkpoints.folder.glob(".*"))
        if checkpoints.best.exists():
            best = load_checkpoint(checkpoints.best, model)
            assert best.update in BEST and all((weight == best.update).all() for weight in model.get_weights())
        assert (folder / "history.csv").read_text().split() in (["update", str(n)] for n in range(1, 4))


def record_of(id_):
    return make_record(id_, "the cat sleeps", "le chat dort bien")


def evaluate(final, number):
    with evaluation_folder(EvaluationDirectory(final), f"of {number}") as folder:
        with ArchiveWriter(folder.attention, manifest={"number": number}, sentences_per_shard=2) as archive:
            for id_ in range(number):
                archive.append(record_of(id_))
        write_json(folder.metrics, {"number": number})


def test_a_failed_evaluation_leaves_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr("qkv.evaluation.resumable.is_running", lambda process: False)  # what failed was another's

    def number_in(folder):
        archive = AttentionArchive(folder / "evaluations" / "test" / "attention")
        number = json.loads((folder / "evaluations" / "test" / "metrics.json").read_text())["number"]
        assert archive.manifest["number"] == number == len(list(archive))
        return number

    for folder in every_failure(
        tmp_path / "try",
        lambda folder: evaluate(folder / "evaluations" / "test", 1),
        lambda folder: evaluate(folder / "evaluations" / "test", 3),
    ):
        final = EvaluationDirectory(folder / "evaluations" / "test")
        with pytest.raises(InputError), evaluation_folder(final, "of 3"):
            raise InputError("the next evaluation goes wrong")
        assert number_in(folder) in (1, 3)
        evaluate(folder / "evaluations" / "test", 2)
        assert number_in(folder) == 2


def test_an_unfinished_archive_is_refused(tmp_path):
    def action(folder):
        with ArchiveWriter(folder / "attention", manifest={}, sentences_per_shard=2) as archive:
            for id_ in range(5):
                archive.append(record_of(id_))

    for folder in every_failure(tmp_path / "try", lambda folder: None, action):
        try:
            assert len(list(AttentionArchive(folder / "attention"))) == 5
        except InputError:
            assert not (folder / "attention" / "manifest.json").exists()


def test_half_written_encoded_text_is_refused(tmp_path):
    def pairs_of(number):
        return EncodedPairs(*(EncodedSentences.from_rows([[number] * 3] * number) for _ in range(2)))

    def prepare(folder):
        pairs_of(2).save(folder / "train")

    def action(folder):
        pairs_of(5).save(folder / "train")

    for folder in every_failure(tmp_path / "try", prepare, action):
        try:
            pairs = EncodedPairs.load(folder / "train")
        except InputError:
            continue
        for side in (pairs.source, pairs.target):
            assert side.ids.tolist() == [len(side)] * 3 * len(side) and len(side) in (2, 5)


def test_a_temporary_file_is_deleted_when_the_disk_is_full(tmp_path):
    with failing(tmp_path, 1, "no space"), pytest.raises(OSError), replaced_when_done(tmp_path / "file") as temporary:
        temporary.write_bytes(b"something")
    assert not list(tmp_path.iterdir())

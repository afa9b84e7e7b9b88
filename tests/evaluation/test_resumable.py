"""An evaluation that was killed goes on where it was, and ends as one that was left alone."""

import shutil

import numpy as np
import pytest

from pipeline.decoding.translator import Translation
from pipeline.evaluation import resumable
from pipeline.evaluation.resumable import archived, evaluation_folder, translate_in_parts
from pipeline.inspection.archive import AttentionArchive
from pipeline.inspection.archive_writer import ArchiveWriter
from pipeline.run_directory import EvaluationDirectory
from tests.inspection.viewer.test_page import make_record

SENTENCES = ["a", "b c", "", "d e f", "g", "h i", "j k l m"]
SHARD = 2


class FakeTranslator:
    """Counts what it is asked for, and dies after so many calls."""

    def __init__(self, calls=99):
        self.asked = []
        self.calls = calls

    def translate(self, sentences):
        if self.calls == len(self.asked):
            raise KeyboardInterrupt
        self.asked.append(list(sentences))
        return [Translation(f"<{one}>", [4], [5, 3], [-0.1, -1 / 3], truncated=False, score=-0.7) for one in sentences]


def test_parts_that_are_there_are_read_and_the_rest_is_translated(tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "PART_SENTENCES", 2)
    whole = FakeTranslator()
    expected = translate_in_parts(whole, SENTENCES, tmp_path / "whole")
    assert [one.text for one in expected] == [f"<{one}>" for one in SENTENCES]
    assert whole.asked[0] == ["j k l m", "d e f"] and len(whole.asked) == 4  # similar lengths together
    killed = FakeTranslator(calls=3)
    with pytest.raises(KeyboardInterrupt):
        translate_in_parts(killed, SENTENCES, tmp_path / "killed")
    again = FakeTranslator()
    assert translate_in_parts(again, SENTENCES, tmp_path / "killed") == expected
    assert killed.asked + again.asked == whole.asked


class FakeRecorder:
    """Gives a record for each number, and dies at one of them."""

    def __init__(self, last=99):
        self.recorded = []
        self.last = last

    def record(self, ids, window_sentences):
        assert window_sentences == SHARD  # so that no number depends on sentences of another shard
        for id_ in ids:
            if id_ == self.last:
                raise KeyboardInterrupt
            self.recorded.append(id_)
            yield make_record(id_, "the cat sleeps", "le chat dort bien")


def write(folder, recorder, count=7):
    with ArchiveWriter(folder, manifest={"x": 1}, sentences_per_shard=SHARD, go_on=True) as archive:
        return [record.id for record in archived(archive, recorder, range(count))]


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("last", range(7))
def test_an_archive_goes_on_after_its_last_whole_shard_and_ends_the_same(tmp_path, last):
    assert write(tmp_path / "whole", FakeRecorder()) == list(range(7))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "killed", FakeRecorder(last))
    again = FakeRecorder()
    assert write(tmp_path / "killed", again) == list(range(7))
    assert again.recorded == list(range(last // 2 * 2, 7))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def cut_last_line(folder):
    path = folder / "sentences.jsonl"
    path.write_bytes(path.read_bytes()[:-9])


def drop_shard(folder):
    (folder / "shard-00001.npz").unlink()


def cut_shard(folder):
    path = folder / "shard-00001.npz"
    path.write_bytes(path.read_bytes()[:-30])


def shard_without_lines(folder):
    path = folder / "sentences.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))


@pytest.mark.parametrize("damage", [cut_last_line, drop_shard, cut_shard, shard_without_lines])
def test_what_is_not_whole_is_written_again(tmp_path, damage):
    write(tmp_path / "whole", FakeRecorder())
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "killed", FakeRecorder(last=4))
    damage(tmp_path / "killed")
    again = FakeRecorder()
    write(tmp_path / "killed", again)
    assert again.recorded == list(range(2, 7))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def test_a_finished_archive_is_gone_on_with_too(tmp_path):
    write(tmp_path / "whole", FakeRecorder())
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    recorder = FakeRecorder()
    write(tmp_path / "again", recorder)
    assert recorder.recorded == [6]  # the last shard is not full
    assert files_of(tmp_path / "again") == files_of(tmp_path / "whole")


def test_kept_records_are_those_that_were_written(tmp_path):
    write(tmp_path / "whole", FakeRecorder())
    with ArchiveWriter(tmp_path / "whole", manifest={}, sentences_per_shard=SHARD, go_on=True) as archive:
        kept = list(archive.kept())
        assert archive.sentences == len(kept) == 6
    for record in kept:
        expected = make_record(record.id, "the cat sleeps", "le chat dort bien")
        assert (record.source, record.target_words) == (expected.source, expected.target_words)
        np.testing.assert_array_equal(record.attention["cross"], expected.attention["cross"])
    assert len(AttentionArchive(tmp_path / "whole")) == 6


def left_behind(final, fingerprint, monkeypatch):
    """A process that is killed leaves its folder."""
    with pytest.raises(KeyboardInterrupt), evaluation_folder(final, fingerprint) as folder:
        (folder.root / "part").touch()
        raise KeyboardInterrupt
    monkeypatch.setattr("pipeline.evaluation.resumable._is_running", lambda process: False)


def test_only_an_evaluation_of_the_same_is_gone_on_with(tmp_path, monkeypatch):
    final = EvaluationDirectory(tmp_path / "evaluations" / "test")
    left_behind(final, "abc", monkeypatch)
    with evaluation_folder(final, "abc") as folder:
        assert (folder.root / "part").exists()
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]
    left_behind(final, "abc", monkeypatch)
    with evaluation_folder(final, "other") as folder:
        assert not (folder.root / "part").exists()
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


def test_who_interrupts_is_told_how_to_go_on(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", logger="pipeline")
    left_behind(EvaluationDirectory(tmp_path / "evaluations" / "test"), "abc", monkeypatch)
    assert "evaluations/test: the same command goes on from here" in caplog.text

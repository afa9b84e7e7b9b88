"""An evaluation that was killed goes on where it was, and ends as one that was left alone."""

import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qkv.decoding.translator import Translation
from qkv.errors import InputError
from qkv.evaluation import resumable
from qkv.evaluation.request import EvaluationSet, TokenisedSet
from qkv.evaluation.resumable import evaluation_folder, record_resumably, translate_resumably
from qkv.files.run_directory import EvaluationDirectory
from qkv.files.written import LIST
from qkv.inspection.archive import ArchiveWriter, AttentionArchive
from qkv.text.tokens.encoding import EncodedSentences
from tests.support import files_below
from tests.support.viewer import make_record

METRICS = json.dumps(dict.fromkeys(("name", "mode", "sentences", "search", "truncated")))
SENTENCES = ["a", "b c", "", "d e f", "g", "h i", "j k l m"]
SHARD = 2


class FakeTranslator:
    """Counts what it is asked for, and dies after so many calls."""

    def __init__(self, calls=99, batch_sentences=1):
        self.asked = []
        self.calls = calls
        self.tokenizer = SimpleNamespace(vocabulary_size=6)
        self.batch_sentences = batch_sentences

    def translate_ids(self, source_ids, prefix_ids, required):
        if self.calls == len(self.asked):
            raise KeyboardInterrupt
        sentences = ["".join(map(chr, ids)) for ids in source_ids]
        self.asked.append(sentences)
        values = {"source_ids": [4], "ids": [5, 3], "log_probabilities": [-0.1, -1 / 3], "score": -0.7}
        return [[Translation(f"<{one}>", truncated=False, **values)] for one in sentences]


def tokenised(sentences):
    """A set whose tokens are characters."""
    return TokenisedSet(
        EvaluationSet("test", sentences), EncodedSentences.from_rows([*map(ord, one)] for one in sentences), None
    )


def test_chunks_in_the_folder_are_read_and_the_others_are_translated(tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "SENTENCES_PER_CHUNK", 2)
    text = tokenised(SENTENCES)
    whole = FakeTranslator()
    expected = translate_resumably(whole, text, tmp_path / "whole")
    assert [one.text for one in expected] == [f"<{one}>" for one in SENTENCES]
    assert whole.asked[0] == ["j k l m", "d e f"] and len(whole.asked) == 4  # similar lengths together
    killed = FakeTranslator(calls=3)
    with pytest.raises(KeyboardInterrupt):
        translate_resumably(killed, text, tmp_path / "killed")
    again = FakeTranslator()
    assert translate_resumably(again, text, tmp_path / "killed") == expected
    assert killed.asked + again.asked == whole.asked


def test_a_set_is_continued_with_batches_of_another_size(tmp_path, monkeypatch):
    """Of 6 sentences, the last chunk of 4 and the second chunk of 2 have 2 sentences, but not the same ones."""
    monkeypatch.setattr(resumable, "SENTENCES_PER_CHUNK", 2)
    text = tokenised(SENTENCES[:6])
    expected = translate_resumably(FakeTranslator(), text, tmp_path / "whole")
    large = FakeTranslator(batch_sentences=4)
    assert translate_resumably(large, text, tmp_path / "large") == expected
    assert [len(asked) for asked in large.asked] == [4, 2]  # no chunk is smaller than a batch
    small = FakeTranslator()
    assert translate_resumably(small, text, tmp_path / "large") == expected
    assert len(small.asked) == 2  # the last two sentences are read


@pytest.mark.parametrize(
    ("old", "new"),
    [('"ids": [5, 3]', '"ids": [6, 3]'), ("5, 3]", "5]"), ("5, 3]", '5, "3"]'), ("false", "0"), ("}, {", "}, 7, {")]
    + [("-0.7", "NaN"), ('"text"', '"txet"'), ("]", "")],
)
def test_a_damaged_chunk_is_translated_again(tmp_path, monkeypatch, old, new):
    monkeypatch.setattr(resumable, "SENTENCES_PER_CHUNK", 2)
    text = tokenised(SENTENCES)
    expected = translate_resumably(FakeTranslator(), text, tmp_path)
    path = tmp_path / "translations-00002.json"
    whole = " ".join(path.read_text(encoding="utf-8").split()).replace("[ ", "[").replace(" ]", "]")
    assert old in whole
    path.write_text(whole.replace(old, new), encoding="utf-8")
    again = FakeTranslator()
    assert translate_resumably(again, text, tmp_path) == expected
    assert len(again.asked) == 1
    assert translate_resumably(FakeTranslator(calls=0), text, tmp_path) == expected


def test_every_sentence_keeps_what_is_given_for_it_whatever_the_order_of_translation(tmp_path):
    given = {}

    class Translator(FakeTranslator):
        def translate_ids(self, source_ids, prefix_ids, required):
            sentences = ("".join(map(chr, ids)) for ids in source_ids)
            given.update(zip(sentences, zip(prefix_ids, required, strict=True), strict=True))
            return super().translate_ids(source_ids, prefix_ids, required)

    text = tokenised(SENTENCES)
    prefixes = [[number] * number for number in range(len(SENTENCES))]
    required = [[f"phrase {number}"] for number in range(len(SENTENCES))]
    data = replace(text.data, prefixes=prefixes, required=required)
    translate_resumably(Translator(), replace(text, data=data), tmp_path)
    assert given == dict(zip(SENTENCES, zip(prefixes, required, strict=True), strict=True))


class FakeRecorder:
    """Gives a record for each number, and dies at one of them."""

    def __init__(self, last=99):
        self.recorded = []
        self.last = last

    def record(self, ids, sites):
        assert sites == ["cross"]
        for id_ in ids:
            if id_ == self.last:
                raise KeyboardInterrupt
            self.recorded.append(id_)
            yield make_record(id_, "the cat sleeps", "le chat dort bien")


def write(folder, recorder, count=7):
    with ArchiveWriter(folder, manifest={"x": 1}, sentences_per_shard=SHARD, go_on=True) as archive:
        record_resumably(archive, recorder, range(count), ["cross"])
    return AttentionArchive(folder).ids


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("last", range(7))
def test_an_archive_continues_after_its_last_complete_shard_and_ends_the_same(tmp_path, last):
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


def spoil_the_first_shard(folder):
    with zipfile.ZipFile(folder / "shard-00000.npz", "w") as shard:
        shard.writestr("cross/000000.npy", b"no array")


@pytest.mark.parametrize(
    ("damage", "first"),
    [(cut_last_line, 2), (drop_shard, 2), (cut_shard, 2), (shard_without_lines, 2), (spoil_the_first_shard, 0)],
)
def test_a_shard_that_is_not_whole_is_recorded_again(tmp_path, damage, first):
    write(tmp_path / "whole", FakeRecorder())
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "killed", FakeRecorder(last=4))
    damage(tmp_path / "killed")
    again = FakeRecorder()
    write(tmp_path / "killed", again)
    assert again.recorded == list(range(first, 7))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def test_a_finished_archive_is_continued_too(tmp_path):
    write(tmp_path / "whole", FakeRecorder())
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    recorder = FakeRecorder()
    write(tmp_path / "again", recorder)
    assert recorder.recorded == [6]  # the last shard is not full
    assert files_of(tmp_path / "again") == files_of(tmp_path / "whole")


def test_records_of_whole_shards_stay_as_they_were_written(tmp_path):
    write(tmp_path / "whole", FakeRecorder())
    with ArchiveWriter(tmp_path / "whole", manifest={}, sentences_per_shard=SHARD, go_on=True) as archive:
        assert len(archive.ids) == 6
        with pytest.raises(ValueError, match="sites with"):
            archive.append(make_record(6, "the cat sleeps", "le chat dort bien", heads=9))
    for record in AttentionArchive(tmp_path / "whole"):
        expected = make_record(record.id, "the cat sleeps", "le chat dort bien")
        assert (record.source, record.target_words) == (expected.source, expected.target_words)
        np.testing.assert_array_equal(record.attention["cross"], expected.attention["cross"])
    assert len(AttentionArchive(tmp_path / "whole")) == 6


@pytest.fixture
def final(tmp_path):
    """The folder in which the evaluation will be."""
    return EvaluationDirectory(tmp_path / "evaluations" / "test")


def left_behind(final, fingerprint, monkeypatch):
    """A process that is killed leaves its folder."""
    with pytest.raises(KeyboardInterrupt), evaluation_folder(final, fingerprint) as folder:
        (folder.root / "heads.csv").touch()
        raise KeyboardInterrupt
    monkeypatch.setattr("qkv.evaluation.resumable.is_running", lambda process: False)


def test_only_an_evaluation_of_the_same_fingerprint_is_continued(final, monkeypatch):
    left_behind(final, "abc", monkeypatch)
    with evaluation_folder(final, "abc") as folder:
        assert (folder.root / "heads.csv").exists()
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]
    left_behind(final, "abc", monkeypatch)
    with evaluation_folder(final, "other") as folder:
        assert not (folder.root / "heads.csv").exists()
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


def test_half_written_files_of_a_killed_evaluation_are_deleted(final, monkeypatch):
    left_behind(final, "abc", monkeypatch)
    (left,) = final.root.parent.iterdir()
    (left / "heatmaps").mkdir()
    for name in (
        ".heads.0123456789abcdef.qkv-tmp.csv",
        "heatmaps/.sentence-000001.0123456789abcdef.qkv-tmp.png",
        "sentences.csv",
    ):
        (left / name).touch()
    with evaluation_folder(final, "abc"):
        pass
    assert files_below(final.root).keys() == {"heads.csv", "sentences.csv", LIST}


@pytest.mark.parametrize("process", ["9" * 23, "0" * 23, "9" * 100, "٣", "-1", "x"])
def test_a_folder_of_a_number_that_no_process_has_is_left_behind(final, process):
    prefix = f".{final.root.name}.qkv-tmp.{socket.gethostname()}."
    (final.root.parent / f"{prefix}{process}.abc").mkdir(parents=True)
    with evaluation_folder(final, "abc"):
        pass
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


@pytest.mark.parametrize("place", ["itself", "within"])
def test_a_link_in_the_place_of_what_a_killed_evaluation_left_is_not_followed(final, tmp_path, monkeypatch, place):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious").touch()
    left_behind(final, "abc", monkeypatch)
    (left,) = final.root.parent.iterdir()
    if place == "itself":
        shutil.rmtree(left)
        left.symlink_to(tmp_path / "home")
    else:
        (left / "attention").symlink_to(tmp_path / "home")
    with evaluation_folder(final, "abc") as folder:
        assert not list(folder.root.iterdir()) and not folder.root.is_symlink()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["precious"]
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


def test_what_a_dead_process_left_goes_and_every_other_hidden_folder_stays(final):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    host = socket.gethostname()
    others = [f"test.qkv-tmp.{host}.{os.getppid()}.abc", f"test2.qkv-tmp.{host}.{dead.pid}.abc"]
    others += [f"test.qkv-tmp.not-{host}.{dead.pid}.abc", f"test.{host}.bak"]
    folders = [final.root.with_name(f".{name}") for name in (f"test.qkv-tmp.{host}.{dead.pid}.abc", *others)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "heads.csv").touch()
    with evaluation_folder(final, "another") as folder:
        (folder.root / "metrics.json").touch()
    assert {path.name for path in final.root.iterdir()} == {"metrics.json", LIST}
    assert [(path / "heads.csv").exists() for path in folders] == [False, True, True, True, True]


@pytest.mark.parametrize("killed", [False, True])
def test_what_others_have_put_into_an_evaluation_stays(final, tmp_path, monkeypatch, killed):
    (final.root / "mine").mkdir(parents=True)
    (final.root / "mine" / "notes.md").touch()
    (final.root / "link").symlink_to(tmp_path)
    final.heads.touch()
    final.metrics.write_text(METRICS)
    if killed:  # when the old evaluation had been moved away, before the new one had come, which is complete
        left_behind(final, "abc", monkeypatch)
        (left,) = final.root.parent.glob(".*")
        (left / "metrics.json").touch()
        final.root.rename(left.with_name(".".join([*left.name.split(".")[:-1], "0"])))
        monkeypatch.setattr("os.getpid", lambda: 1)
    with evaluation_folder(final, "other") as folder:
        folder.sentences.touch()
    assert sorted(path.name for path in final.root.rglob("*")) == [LIST, "link", "mine", "notes.md", "sentences.csv"]
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


OF_OTHERS = [
    "heatmaps/mine.png",
    "heatmaps/sentence-000009-cross-layer-0.png.bak",
    "attention/mine.txt",
    "attention/deep/er/mine.txt",
    "parts/mine.txt",
    "members/b/mine.txt",
    "notes.md",
]
OF_OURS = [
    "heatmaps/sentence-000000-cross-layer-0.png",
    "heatmaps/probe-000001-cross-layer-2.png",
    "attention/manifest.json",
    "attention/sentences.jsonl",
    "attention/shard-00000.npz",
    "members/b/heads.csv",
    "members/b/attention/manifest.json",
    "metrics.json",
    "heads.csv",
]


def fill(folder, names, text=METRICS):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("listed", [True, False])
def test_files_of_others_in_the_folders_of_an_evaluation_stay_and_its_own_files_go(final, listed):
    with evaluation_folder(final, "abc") as folder:
        fill(folder.root, OF_OURS)
    if not listed:  # by an older version
        final.written.path.unlink()
    fill(final.root, OF_OTHERS, "mine")
    with evaluation_folder(final, "other") as folder:
        fill(folder.root, ["metrics.json", "attention/manifest.json"], "new")
    left = files_below(final.root)
    assert left.keys() == {*OF_OTHERS, "metrics.json", "attention/manifest.json", LIST}
    assert all(left[name] == b"mine" for name in OF_OTHERS)
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


@pytest.mark.parametrize("name", ["metrics.json", "heads.csv", OF_OURS[0], "attention/shard-00000.npz"])
def test_a_file_of_others_in_the_place_of_one_to_write_is_refused(final, name):
    fill(final.root, [name], "{}")
    with pytest.raises(InputError, match=f"{name}: not written by this command"), evaluation_folder(final, "abc"):
        pytest.fail("it was begun")
    shutil.rmtree(final.root)
    with evaluation_folder(final, "abc") as folder:
        fill(folder.root, ["metrics.json"])
    if name != "metrics.json":  # nor in an evaluation whose list does not name it
        fill(final.root, [name], "mine")
        with pytest.raises(InputError, match=f"{name}: not written by this"), evaluation_folder(final, "other"):
            pytest.fail("it was begun")


def test_a_file_that_others_put_in_the_place_of_a_new_one_meanwhile_is_kept_aside(final, caplog):
    with evaluation_folder(final, "abc") as folder:
        fill(folder.root, ["metrics.json"])
    with evaluation_folder(final, "other") as folder:
        fill(folder.root, ["metrics.json", "heads.csv"], "new")
        fill(final.root, ["heads.csv", "notes.md"], "mine")
    assert files_below(final.root) | {LIST: b""} == {
        "metrics.json": b"new",
        "heads.csv": b"new",
        "notes.md": b"mine",
        LIST: b"",
    }
    (aside,) = final.root.parent.glob(".*")
    assert (
        files_below(aside) == {"heads.csv": b"mine"}
        and f"{aside}: files that no evaluation wrote are kept here" in caplog.text
    )


IN_ITS_PLACE = {
    "a file": lambda path, home: path.touch(),
    "a link": lambda path, home: path.symlink_to(home),
    "a link that leads nowhere": lambda path, home: path.symlink_to(home / "none"),
}


@pytest.mark.parametrize("name", ["evaluations", "evaluations/test"])
@pytest.mark.parametrize("put", IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
def test_what_is_no_folder_is_refused_before_anything_is_done(final, tmp_path, name, put):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    put(tmp_path / name, home)
    with pytest.raises(InputError, match=f"{name}: this is a (file|link)"), evaluation_folder(final, "abc"):
        pytest.fail("it was begun")
    assert not list(home.iterdir())


def test_two_processes_may_evaluate_the_same_set(final, monkeypatch):
    """The other one moves the evaluation away, and comes back, in the worst moment."""
    final.root.mkdir(parents=True)
    (final.root / "heads.csv").touch()
    final.metrics.write_text(METRICS)
    moves = []
    usual = Path.replace

    def replace(path, target):
        moves.append(path)
        if len(moves) == 1:  # it has just been moved away
            shutil.rmtree(final.root)
        if len(moves) == 2:  # the other one is in place already
            final.root.mkdir()
            (final.root / "heads.csv").touch()
        return usual(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with evaluation_folder(final, "abc") as folder:
        (folder.root / "sentences.csv").touch()
    assert {path.name for path in final.root.iterdir()} == {"sentences.csv", LIST}
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


def test_an_interrupted_evaluation_says_how_to_continue(final, monkeypatch, caplog):
    caplog.set_level("INFO", logger="qkv")
    left_behind(final, "abc", monkeypatch)
    assert "evaluations/test: the finished part is kept; run the same command again to continue" in caplog.text


def test_an_evaluation_that_ends_in_an_error_keeps_what_it_has_translated(final, monkeypatch, caplog):
    caplog.set_level("INFO", logger="qkv")
    text = tokenised(SENTENCES)
    with pytest.raises(ValueError, match="later"), evaluation_folder(final, "abc") as folder:
        expected = translate_resumably(FakeTranslator(), text, folder.parts)
        raise ValueError("later")
    assert "run the same command again to continue" in caplog.text
    monkeypatch.setattr("qkv.evaluation.resumable.is_running", lambda process: False)
    with evaluation_folder(final, "abc") as folder:
        assert translate_resumably(FakeTranslator(calls=0), text, folder.parts) == expected
    assert [path.name for path in final.root.parent.iterdir()] == ["test"]


def test_an_evaluation_that_has_translated_nothing_leaves_nothing_but_the_one_before(final):
    for before in ([], [final.root]):
        with pytest.raises(ValueError, match="at once"), evaluation_folder(final, "abc") as folder:
            folder.parts.mkdir()
            raise ValueError("at once")
        assert [*final.root.parent.iterdir()] == before
        with evaluation_folder(final, "abc") as folder:
            folder.heads.write_text("whole")
    assert {path.name for path in final.root.iterdir()} == {"heads.csv", LIST}
    assert final.root.stat().st_mode == final.root.parent.stat().st_mode

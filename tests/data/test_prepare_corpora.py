"""The scripts that prepare public corpora leave what they promise, or nothing."""

import errno
import gzip
import io
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import fetch
from data.demo import prepare as demo
from data.manythings import prepare as manythings
from data.manythings import split as manythings_split
from data.multi30k import prepare as multi30k
from qkv.errors import InputError
from qkv.files import lock as file_lock
from qkv.files.atomic import temporary_path, write_atomically
from tests.support import ROOT, files_below
from tests.support.oracles import walk

WRITTEN = {multi30k: ("train.en", "lc.norm.tok/train.en"), manythings: ("fra.txt", "tokenized.tsv")}
TABLE = b"Go.\tVa !\nHi.\tSalut !\nRun!\tCours !\nRun!\tCourez !\n"
WORDS = st.sampled_from("abcdefgh")


def zipped(content, name="fra.txt", method=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def made_multi30k(tmp_path, monkeypatch):
    """Tiny stand-ins for the twelve texts, as copies and as they are published."""
    texts = {name: f"{name}\nzwei\n".encode() for name in multi30k.CHECKSUMS}
    copies, public = tmp_path / "copies", tmp_path / "public"
    monkeypatch.setattr(multi30k, "CHECKSUMS", {name: fetch.sha256(text) for name, text in texts.items()})
    monkeypatch.setattr(multi30k, "BASE_URL", public.as_uri())
    for name, text in texts.items():
        write_atomically(copies / name, text)
        path = Path(multi30k.make_address(name).removeprefix("file://"))
        write_atomically(path, gzip.compress(text) if path.suffix == ".gz" else text.rstrip(b"\n"))
    return copies, public, texts


@pytest.fixture
def made_manythings(tmp_path, monkeypatch):
    monkeypatch.setattr(manythings, "CHECKSUM", fetch.sha256(TABLE))
    monkeypatch.setattr(manythings, "URL", (tmp_path / "public.zip").as_uri())
    monkeypatch.setattr(manythings, "KNOWN_SPLIT", tmp_path / "split.txt.gz")
    (tmp_path / "split.txt.gz").write_bytes(gzip.compress(b"val\ntest\ntrain\ntrain\n"))
    (tmp_path / "public.zip").write_bytes(zipped(TABLE))
    write_atomically(tmp_path / "copies" / "fra.txt", TABLE)
    return tmp_path / "copies"


@pytest.fixture(params=["multi30k", "manythings"])
def prepare(request):
    """Each script in turn, with the stand-ins of its corpus."""
    request.getfixturevalue(f"made_{request.param}")
    return {"multi30k": multi30k, "manythings": manythings}[request.param]


# Multi30k


@pytest.mark.parametrize("downloaded", [False, True])  # packed, or without the last newline
def test_multi30k_leaves_every_text(downloaded, made_multi30k, tmp_path, capsys):
    copies, _, texts = made_multi30k
    given = [] if downloaded else ["--from", str(copies)]
    assert multi30k.main([*given, "--output", str(tmp_path / "out")]) == 0
    assert files_below(tmp_path / "out") == texts
    assert ("train.en.gz" in capsys.readouterr().err) == downloaded


def test_multi30k_names_the_missing_copies(made_multi30k, tmp_path, capsys):
    copies, _, _ = made_multi30k
    (copies / "val.de").unlink()
    (copies / "lc.norm.tok" / "train.en").unlink()
    assert multi30k.main(["--from", str(copies), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "val.de" in error
    assert "lc.norm.tok/train.en" in error
    assert "train.de" not in error
    assert not (tmp_path / "out").exists()


def test_multi30k_keeps_nothing_of_a_text_with_another_checksum(made_multi30k, tmp_path, capsys):
    _, _, texts = made_multi30k
    path = Path(multi30k.make_address("val.en").removeprefix("file://"))
    path.write_bytes(gzip.compress(b"other\n"))
    assert multi30k.main(["--output", str(tmp_path / "out")]) == 2
    assert "SHA-256" in capsys.readouterr().err
    assert "val.en" not in files_below(tmp_path / "out")
    assert set(files_below(tmp_path / "out")) <= set(texts), "no temporary files"


def test_multi30k_fetches_only_files_that_are_not_there_yet(made_multi30k, tmp_path, monkeypatch):
    copies, _, _ = made_multi30k
    multi30k.main(["--from", str(copies), "--output", str(tmp_path / "out")])
    (tmp_path / "out" / "val.en").write_bytes(b"half")
    fetched = []
    monkeypatch.setattr(multi30k, "download", lambda url: fetched.append(url) or fetch.download(url))
    assert multi30k.main(["--output", str(tmp_path / "out")]) == 0
    assert [url.rsplit("/", 1)[1] for url in fetched] == ["val.en.gz"]


def test_multi30k_addresses_are_those_of_the_public_repository():
    base = "https://raw.githubusercontent.com/multi30k/dataset"
    assert multi30k.make_address("val.en") == f"{base}/{multi30k.RAW_COMMIT}/data/task1/raw/val.en.gz"
    assert multi30k.make_address("lc.norm.tok/test_2016_flickr.de") == (
        f"{base}/{multi30k.TOKENIZED_COMMIT}/data/task1/tok/test_2016_flickr.lc.norm.tok.de"
    )


# Downloads


def test_a_missing_address_is_refused_in_one_message(tmp_path):
    with pytest.raises(InputError, match="could not be downloaded"):
        fetch.download((tmp_path / "nothing").as_uri())


def test_a_terminal_sees_a_bar_that_reaches_the_end(tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    (tmp_path / "file").write_bytes(b"x" * 200_000)
    terminal = Terminal()
    assert len(fetch.download((tmp_path / "file").as_uri(), terminal)) == 200_000
    assert "[" + "#" * 30 + "]" in terminal.getvalue().split("\r")[-1]


def test_a_full_disk_is_one_line_and_leaves_the_old_file_and_no_other(prepare, tmp_path, monkeypatch, capsys):
    (tmp_path / "out").mkdir()
    first = tmp_path / "out" / WRITTEN[prepare][0]
    first.write_bytes(b"old")

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    assert prepare.main(["--output", str(tmp_path / "out")]) == 1
    assert f"{first}: No space left on device; make room" in capsys.readouterr().err.splitlines()[-1]
    assert files_below(tmp_path / "out") == {first.name: b"old"}


def test_what_a_killed_process_left_is_deleted_but_not_while_it_runs(prepare, tmp_path, capsys):
    lock, *left = [tmp_path / "out" / ".lock", *(temporary_path(tmp_path / "out" / name) for name in WRITTEN[prepare])]
    others = [tmp_path / "out" / name for name in (".env.template", ".fra.a1b2c3d4.txt", "sub/.npmrc.original")]
    others.append(temporary_path(tmp_path / "out" / "sub" / "fra.txt"))
    for path in (*left, *others):
        write_atomically(path, b"half")
    lock.write_text("process 1 on a machine")
    with file_lock.folder_locked(lock, "prepares text here"):
        assert prepare.main(["--output", str(tmp_path / "out")]) == 2
        assert f"process {os.getpid()} on" in capsys.readouterr().err
    assert all(path.exists() for path in left)
    assert prepare.main(["--output", str(tmp_path / "out")]) == 0
    assert not any(path.exists() for path in (lock, *left))
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("script", [demo, manythings, multi30k], ids=["demo", "manythings", "multi30k"])
@pytest.mark.parametrize("place", ["a file", "a link that leads nowhere", "within a file"])
def test_what_is_no_folder_is_refused_before_anything_is_fetched(tmp_path, monkeypatch, capsys, script, place):
    monkeypatch.setattr(script, "generate_splits" if script is demo else "download", None)
    output = tmp_path / "README.md"
    output.symlink_to(tmp_path / "none") if place == "a link that leads nowhere" else output.write_text("mine")
    before = files_below(tmp_path)
    assert script.main(["--output", str(output / "sub" if place == "within a file" else output)]) == 2
    assert f"{output}" in (said := capsys.readouterr().err) and "expected" in said and said.count("\n") == 1
    assert files_below(tmp_path) == before


def test_a_link_in_the_folder_stays_and_the_file_that_it_leads_to_is_written(prepare, tmp_path):
    (tmp_path / "out").mkdir()
    link = tmp_path / "out" / WRITTEN[prepare][0]
    link.symlink_to(tmp_path / "disk")
    assert prepare.main(["--output", str(tmp_path / "out")]) == 0
    assert link.is_symlink() and (tmp_path / "disk").read_bytes() == link.read_bytes() != b""


# ManyThings


@pytest.mark.parametrize("source", ["copies", "zip", "download"])
def test_manythings_leaves_the_table_as_found_its_words_and_the_known_split(made_manythings, tmp_path, source):
    if source == "zip":
        (made_manythings / "fra.txt").unlink()
        (made_manythings / "fra-eng.zip").write_bytes(zipped(TABLE))
    arguments = [] if source == "download" else ["--from", str(made_manythings)]
    assert manythings.main([*arguments, "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "fra.txt").read_bytes() == TABLE
    assert (tmp_path / "out" / "split.txt").read_text() == "val\ntest\ntrain\ntrain\n"
    assert (tmp_path / "out" / "tokenized.tsv").read_text() == (
        "go .\tva !\nhi .\tsalut !\nrun !\tcours !\nrun !\tcourez !\n"
    )


def test_manythings_uses_a_split_that_is_there(made_manythings, tmp_path, capsys):
    (made_manythings / "split.txt").write_text("test\nval\ntrain\ntrain\n")
    assert manythings.main(["--from", str(made_manythings), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "split.txt").read_text() == "test\nval\ntrain\ntrain\n"
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:4]]
    assert rows == [["train", "2", "1", "2"], ["val", "1", "1", "1"], ["test", "1", "1", "1"]]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("test\nval\ntrain\ntest\n", "split.txt:4: test, but line 3 with the same sentence, 'Run!', is train"),
        ("test\nval\ntrain\n", "3 lines; expected 4"),
        ("test\nval\ntrain\ndev\n", "split.txt:4: 'dev'; expected one of train, val, test"),
    ],
)
def test_manythings_refuses_a_split_that_does_not_fit(made_manythings, tmp_path, capsys, split, message):
    (made_manythings / "split.txt").write_text(split)
    assert manythings.main(["--from", str(made_manythings), "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_manythings_takes_another_snapshot_only_when_told(made_manythings, tmp_path, capsys):
    newer = "".join(f"{line}\tCC-BY 2.0 #{i}\n" for i, line in enumerate(TABLE.decode().splitlines())).encode()
    (made_manythings / "fra.txt").write_bytes(newer)
    arguments = ["--from", str(made_manythings), "--output", str(tmp_path / "out")]
    assert manythings.main(arguments) == 2
    assert "--accept-new-snapshot" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert manythings.main([*arguments, "--accept-new-snapshot"]) == 0
    assert "warning" in capsys.readouterr().err
    assert (tmp_path / "out" / "fra.txt").read_bytes() == newer
    pairs = manythings.read_pairs(newer, "fra.txt")
    drawn = manythings_split.assign_splits(manythings_split.find_components(pairs))
    assert (tmp_path / "out" / "split.txt").read_text().splitlines() == drawn


def test_a_known_split_that_leaks_is_refused_as_any_other(made_manythings, tmp_path, capsys):
    (tmp_path / "split.txt.gz").write_bytes(gzip.compress(b"val\ntest\ntrain\ntest\n"))
    assert manythings.main(["--from", str(made_manythings), "--output", str(tmp_path / "out")]) == 2
    assert "split.txt.gz:4: test, but line 3 with the same sentence" in capsys.readouterr().err


def test_the_committed_split_has_a_label_for_each_pair_of_the_snapshot_and_no_time_in_its_header():
    packed = manythings.KNOWN_SPLIT.read_bytes()
    labels = gzip.decompress(packed).decode().split("\n")
    assert labels.pop() == ""
    assert len(labels) == 167_130
    assert set(labels) == set(manythings_split.SPLITS)
    assert packed[4:8] == bytes(4)


@pytest.mark.parametrize("content", [b"<html>not acceptable</html>", zipped(b"", "other.txt")])
def test_manythings_refuses_what_is_no_archive_of_the_table(made_manythings, tmp_path, capsys, content):
    (tmp_path / "public.zip").write_bytes(content)
    assert manythings.main(["--output", str(tmp_path / "out")]) == 2
    assert "unzipped" in capsys.readouterr().err


@pytest.mark.parametrize("table", [b"a\tb\nc\n", b"a\n", b"a\tb\tc\td\n", b"a\tb\nc\t\xff\n", b"a\tb\tc\nd\te\n"])
def test_manythings_refuses_rows_that_do_not_fit(table):
    with pytest.raises(InputError, match=r"fra.txt:[12]: "):
        manythings.read_pairs(table, "fra.txt")


@given(st.lists(st.tuples(WORDS, WORDS) | st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1))
def test_components_are_those_of_a_search_through_shared_sentences(pairs):
    numbers = list(manythings_split.find_components(pairs))
    assert [numbers.index(number) for number in numbers] == walk(*zip(*pairs, strict=True))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=200), st.integers(0, 9))
def test_a_drawn_split_never_leaks_and_depends_on_the_seed_alone(numbers, seed):
    pairs = [(f"s{source}", f"t{target}") for source, target in numbers]
    labels = manythings_split.assign_splits(manythings_split.find_components(pairs), seed)
    manythings_split.check_split(labels, pairs, "split")
    for side in (0, 1):
        splits = defaultdict(set)
        for label, pair in zip(labels, pairs, strict=True):
            splits[pair[side]].add(label)
        assert all(len(own) == 1 for own in splits.values())
    assert labels == manythings_split.assign_splits(manythings_split.find_components(pairs), seed)


def test_a_drawn_split_holds_two_percent_out_twice_and_large_components_train():
    large = manythings_split.LARGEST_HELD_OUT + 1
    numbers = list(range(2000)) + [5000 + index // large for index in range(400 // large * large)]
    labels = manythings_split.assign_splits(numbers)
    assert (labels.count("test"), labels.count("val")) == (48, 48)
    assert set(labels[2000:]) == {"train"}


# As people start them


@pytest.mark.parametrize(("corpus", "name"), [("multi30k", "train.en"), ("manythings", "fra.txt")])
def test_the_script_starts_from_anywhere_and_tells_what_is_missing(corpus, name, tmp_path):
    command = [sys.executable, str(ROOT / "data" / corpus / "prepare.py"), "--from", str(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}: missing ") and name in result.stderr
    assert "Traceback" not in result.stderr


# Archives from others


def with_field(content, value, listed, own=None):
    """Writes a number of two bytes at a place in the list at the end of an archive, and in its member's own header."""
    changed = bytearray(content)
    for place in (changed.index(b"PK\x01\x02") + listed, own):
        if place is not None:
            changed[place : place + 2] = value.to_bytes(2, "little")
    return bytes(changed)


BOMB = zipped(bytes(3_000_000), method=zipfile.ZIP_DEFLATED)
METHOD = {"listed": 10, "own": 8}


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


HOSTILE_ARCHIVES = {
    "a bomb": BOMB,
    "a size that is not so": with_field(with_field(BOMB, 10, listed=24), 0, listed=26),
    "encrypted": with_field(zipped(TABLE), 1, listed=8, own=6),
    "a compression that nobody knows": with_field(zipped(TABLE), 77, **METHOD),
    "a compression that it has not": with_field(zipped(TABLE), zipfile.ZIP_DEFLATED, **METHOD),
    "bzip2 that it has not": with_field(zipped(TABLE), zipfile.ZIP_BZIP2, **METHOD),
    "lzma that it has not": with_field(zipped(TABLE), zipfile.ZIP_LZMA, **METHOD),
    "a path from the root": zipped(TABLE, "/fra.txt"),
    "a path upwards": zipped(TABLE, "../fra.txt"),
    "a path below": zipped(TABLE, "x/fra.txt"),
    "no member": zipped(TABLE, "deu.txt"),
    "a folder of that name": zipped(b"", "fra.txt/"),
    "no archive": b"fra.txt",
    "nothing": b"",
    "half": zipped(TABLE)[:60],
    "another sum": flipped(zipped(TABLE), 40),
    **{f"byte {place} flipped": flipped(zipped(TABLE), place) for place in (0, 26, 28, 30, -6, -10, -22)},
}


@pytest.mark.parametrize("case", HOSTILE_ARCHIVES)
def test_a_hostile_archive_leaves_nothing(case, made_manythings, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetch, "MOST_BYTES", 1_000_000)
    (made_manythings / "fra.txt").unlink()
    (made_manythings / "fra-eng.zip").write_bytes(HOSTILE_ARCHIVES[case])
    before = files_below(tmp_path)
    assert manythings.main(["--from", str(made_manythings), "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "fra-eng.zip" in said
    assert said.count("\n") == 1
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("downloaded", [False, True])
def test_a_table_that_is_too_large_is_given_up(downloaded, made_manythings, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetch, "MOST_BYTES", 10)
    given = [] if downloaded else ["--from", str(made_manythings)]
    assert manythings.main([*given, "--output", str(tmp_path / "out")]) == 2
    assert "expected at most 10" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content",
    [gzip.compress(bytes(3_000_000)), gzip.compress(b"a\n")[:-4], gzip.compress(b"a\n")[:5], b"\x1f\x8b\x08\xff" * 9],
    ids=["a bomb", "cut", "a header alone", "flags"],
)
def test_a_hostile_gzip_file_leaves_nothing(content, made_multi30k, tmp_path, monkeypatch, capsys):
    copies, _, _ = made_multi30k
    monkeypatch.setattr(fetch, "MOST_BYTES", 1_000_000)
    (copies / "train.en").write_bytes(content)
    assert multi30k.main(["--from", str(copies), "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert not files_below(tmp_path / "out")

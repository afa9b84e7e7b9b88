"""Which files are ours: the list of a folder, the marks of pages and pictures, and the files that a command reads."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.files.atomic import write_atomically, write_output
from qkv.files.written import LIST, ORIGIN, FileList, digest_of_folders, note_written, refuse_input, refuse_other_file
from tests.support import files_below


def test_a_name_is_in_the_list_before_its_file_is_in_the_folder(tmp_path):
    files = FileList(tmp_path)
    process = os.fork()
    if not process:
        usual = Path.replace

        def replace(path, target):
            if Path(target).name == "second.csv":
                os.kill(os.getpid(), signal.SIGKILL)
            return usual(path, target)

        Path.replace = replace
        with files.recording():
            write_atomically(tmp_path / "folder" / "first.csv", b"1")
            write_atomically(tmp_path / "folder" / "second.csv", b"2")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert files.names() == {"folder/first.csv", "folder/second.csv"}
    files.delete()
    assert {path.name for path in tmp_path.rglob("*") if "qkv-tmp" not in path.name} == {LIST, "folder"}


def test_only_listed_files_are_deleted_and_only_below_the_folders_that_are_named(tmp_path):
    files = FileList(tmp_path)
    with files.recording():
        for name in ("a/x", "a/deep/x", "b/x", "x"):
            write_atomically(tmp_path / name, b"ours")
    (tmp_path / "a" / "mine").touch()
    files.delete(tmp_path / "a", tmp_path / "missing")
    assert files_below(tmp_path).keys() == {"a/mine", "b/x", "x", LIST}
    assert not (tmp_path / "a" / "deep").exists()
    files.delete()
    assert files_below(tmp_path).keys() == {"a/mine", LIST}


def test_what_is_written_outside_the_folder_or_after_the_block_is_not_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "run", Path("run"), Path("../") / tmp_path.name / "run"):
        files = FileList(folder)
        with files.recording():
            write_output(Path("run") / "inside", b"")
            write_output(tmp_path / "run" / "within" / "it", b"")
            write_output(tmp_path / "outside", b"")
            note_written(tmp_path / "running")
        write_atomically(tmp_path / "run" / "later", b"")
        assert files.names() <= {"inside", "within/it"}
    assert FileList(tmp_path / "run").names() == {"inside", "within/it"}


@given(st.lists(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=20), unique=True))
def test_any_name_is_read_back(tmp_path_factory, names):
    names = [name for name in names if name not in (".", "..")]
    folder = tmp_path_factory.mktemp("list")
    for name in names:
        FileList(folder).add(folder / name)
    assert FileList(folder).names() == set(names)
    FileList(folder).add(*(folder / name for name in names))
    assert FileList(folder).path.exists() == bool(names)


def test_a_line_that_a_kill_has_cut_spoils_no_other(tmp_path):
    files = FileList(tmp_path)
    files.add(tmp_path / "a")
    files.path.write_bytes(files.path.read_bytes() + b'"b/hal')
    FileList(tmp_path).add(tmp_path / "c")
    assert FileList(tmp_path).names() == {"a", "c"}


@pytest.mark.parametrize("line", ['"../mine"', '"a/../../mine"', '"/etc/mine"', "7", "[]", "{", "mine", '""', "\xff"])
def test_lines_that_lead_elsewhere_or_are_damaged_delete_nothing(tmp_path, line):
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").touch()
    files = FileList(tmp_path / "run")
    files.add(tmp_path / "run" / "own")
    files.path.write_bytes(files.path.read_bytes() + line.encode("latin-1") + b"\n")
    (tmp_path / "run" / "own").touch()
    files.delete()
    assert (tmp_path / "mine").exists() and not (tmp_path / "run" / "own").exists()


def test_a_pattern_stands_for_event_files_alone(tmp_path):
    files = FileList(tmp_path)
    suffix = files.add_events(tmp_path / "validation")
    files.add(tmp_path / "*", tmp_path / "validation" / "*")
    own = tmp_path / "validation" / f"events.out.tfevents.1700000000.host.1.0{suffix}"
    assert files.holds(own)
    for name in ("mine", f"validation/mine{suffix}", "validation/events.out.tfevents.1700000000.host.1.0.v2"):
        assert not files.holds(tmp_path / name)


@pytest.mark.parametrize("place", ["file", "folder", "list"])
def test_nothing_is_deleted_or_written_through_links(tmp_path, place):
    home = tmp_path / "home"
    home.mkdir()
    (home / "x").touch()
    run = tmp_path / "run"
    files = FileList(run)
    files.add(run / "a" / "x", run / "x")
    if place == "file":
        (run / "x").symlink_to(home / "x")
    elif place == "folder":
        (run / "a").symlink_to(home)
    else:
        files.path.rename(home / "list")
        files.path.symlink_to(home / "list")
        before = (home / "list").read_bytes()
        with pytest.raises(InputError, match="expected the list of the files that qkv wrote here"):
            FileList(run).add(run / "new")
        assert (home / "list").read_bytes() == before and not FileList(run).names()
    files.delete()
    files.delete(run / "a")
    assert (home / "x").exists()


@pytest.mark.parametrize("text", ["mine", '"a"\n', "# The files that qkv wrote"])
def test_a_file_of_others_in_the_place_of_a_list_is_no_list_and_stays(tmp_path, text):
    (tmp_path / LIST).write_text(text)
    (tmp_path / "a").touch()
    files = FileList(tmp_path)
    files.delete()
    assert not files.exists() and not files.holds(tmp_path / "a") and (tmp_path / "a").exists()
    with pytest.raises(InputError, match="expected the list of the files that qkv wrote here, found something else"):
        files.add(tmp_path / "b")
    assert (tmp_path / LIST).read_text() == text


def test_an_output_that_is_read_is_refused_and_its_neighbours_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("text", "archive/deep/shard", "archive-2", "other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("archive/deep/shard")
    inputs = [Path("text"), tmp_path / "archive", tmp_path / "missing"]
    for name in ("text", "./archive/../text", "archive/deep/shard", "link", str(tmp_path / "text")):
        with pytest.raises(InputError, match=r"--output .*: the command reads this file; choose another name"):
            refuse_input(Path(name), inputs, "--output")
    for name in ("archive-2", "other", "archive/new", "missing", "/dev/stdout", os.devnull):
        refuse_input(Path(name), inputs, "--output")


PAGE = '<meta name="{}" content="{}">'
PICTURES = ["\x89PNG{}\0{}" + first_byte for first_byte in "\0a1_é"]  # a checksum follows, which may be letters


@pytest.mark.parametrize("form", [PAGE, *PICTURES])
def test_only_a_file_with_the_mark_of_the_same_origin_is_replaced(tmp_path, form):
    path, origin = tmp_path / "file", digest_of_folders([tmp_path])
    refuse_other_file(path, origin, "a page")
    path.write_text(form.format(ORIGIN, origin), encoding="latin-1")
    refuse_other_file(path, origin, "a page")
    refused = {
        form.format(ORIGIN, digest_of_folders([tmp_path, tmp_path])),
        form.format(ORIGIN, origin[:8]),
        "",
        origin,
    }
    for text in refused:
        path.write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match="already there, and not a page; choose another name with --output"):
            refuse_other_file(path, origin, "a page")
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(InputError, match="already there"):
        refuse_other_file(path, origin, "a page")

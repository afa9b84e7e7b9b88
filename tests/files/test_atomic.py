"""Files and folders appear whole or not at all, and nothing of other people is touched."""

import contextlib
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.commands.cli import exit_cleanly
from qkv.errors import InputError
from qkv.files.atomic import (
    delete_temporary_files,
    delete_temporary_files_below,
    is_temporary,
    new_folder,
    replaced_when_done,
    temporary_path,
    writable_only,
    write_atomically,
    write_output,
)
from qkv.files.lock import folder_locked
from tests.support import ROOT
from tests.support.processes import read_pipe

OTHERS = (".env.template", ".bashrc.20240101", ".htaccess.disabled", ".npmrc.original", ".text.a1b2c3d4.en")


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", ["text.en", "weights.npz", ".preparation.json", "name", "a.b.tar.gz", "name\nof.two"])
def test_temporary_names_keep_the_suffix_and_are_known_again(name):
    path = temporary_path(Path("folder") / name)
    assert path != temporary_path(Path("folder") / name)
    assert path.suffix == Path(name).suffix or not Path(name).suffix
    assert path.name.startswith(".") and is_temporary(path.name) and is_temporary(path.name, Path(name))
    assert not is_temporary(path.name, Path(f"other{name}"))
    assert not is_temporary(name) and not any(map(is_temporary, OTHERS))


def test_only_what_is_left_of_a_file_is_deleted(tmp_path):
    for name in OTHERS:
        (tmp_path / name).touch()
    left, other = temporary_path(tmp_path / "text.en"), temporary_path(tmp_path / "text.fr")
    below = tmp_path / "sub" / temporary_path(Path("text.en"))
    below.parent.mkdir()
    for path in (left, other, below):
        path.touch()
    delete_temporary_files(tmp_path / "text.en")
    assert {path.name for path in tmp_path.iterdir()} == {*OTHERS, other.name, "sub"} and below.exists()
    delete_temporary_files(tmp_path / "none" / "text.en")


def test_what_is_left_in_a_folder_is_deleted_but_not_behind_links(tmp_path):
    ours, home = tmp_path / "ours", tmp_path / "home"
    for folder in (ours / "sub", home):
        folder.mkdir(parents=True)
        for name in (*OTHERS, temporary_path(Path("text.en")).name):
            (folder / name).touch()
    (ours / "link").symlink_to(home)
    (tmp_path / "link").symlink_to(home)
    delete_temporary_files_below(ours)
    delete_temporary_files_below(tmp_path / "link")
    assert {path.name for path in (ours / "sub").iterdir()} == set(OTHERS)
    assert len(list(home.iterdir())) == len(OTHERS) + 1 and (ours / "link").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="has no umask")
@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, mask, expected):
    with umask(mask):
        write_atomically(tmp_path / "new" / "file", b"text")
    assert permissions(tmp_path / "new" / "file") == expected
    assert permissions(tmp_path / "new") == 0o777 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    with replaced_when_done(path) as temporary:
        assert permissions(temporary) & 0o077 == 0  # what was private is so at any moment
        temporary.write_bytes(b"new")
    assert path.read_bytes() == b"new" and permissions(path) == mode


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "history.csv").mkdir()
    expected = r"history\.csv: this is a folder, in the place of a file"
    with pytest.raises(InputError, match=expected), replaced_when_done(tmp_path / "history.csv"):
        pytest.fail("it was begun")
    assert [path.name for path in tmp_path.rglob("*")] == ["history.csv"]


def test_a_file_that_cannot_be_made_is_named_and_not_its_temporary_one(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        write_atomically(tmp_path / "file", b"text")
    assert caught.value.filename == str(tmp_path / "file")


def test_what_a_run_writes_replaces_a_link_and_leaves_what_it_leads_to(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "file").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new" and not (tmp_path / "file").is_symlink()
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("there", [True, False])
def test_an_output_that_is_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path, there):
    (tmp_path / "disk").mkdir()
    if there:
        (tmp_path / "disk" / "file").write_text("old")
    (tmp_path / "link").symlink_to(Path("disk") / "file")
    (tmp_path / "again").symlink_to("link")
    write_output(tmp_path / "again", b"new")
    assert (tmp_path / "again").is_symlink() and (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_bytes() == b"new"
    assert len(list(tmp_path.rglob("*"))) == 4


@pytest.mark.parametrize("name", ["device", "link"])
def test_an_output_to_a_device_leaves_the_device(tmp_path, name):
    device = tmp_path / "device"  # one of its own: where this fails, /dev/null would be gone for everybody
    try:
        os.mknod(device, stat.S_IFCHR | 0o600, Path(os.devnull).stat().st_rdev)
        device.write_bytes(b"")
    except (AttributeError, PermissionError):
        pytest.skip("only root can make devices")
    (tmp_path / "link").symlink_to("device")
    write_output(tmp_path / name, b"text")
    assert stat.S_ISCHR(device.lstat().st_mode) and (tmp_path / "link").is_symlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_an_output_to_a_full_device_is_told_with_its_name(capsys):
    command = exit_cleanly(lambda arguments: write_output(Path(arguments[0]), b"text"))
    assert command(["/dev/full"]) == 1
    assert capsys.readouterr().err.startswith("error: /dev/full: No space left on device; ")


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_an_output_to_a_pipe_is_read_from_it(tmp_path, name):
    (tmp_path / "link").symlink_to("pipe")
    with read_pipe(tmp_path / "pipe") as read:
        write_output(tmp_path / name, b"text" * 100_000)
    assert read == [b"text" * 100_000] and (tmp_path / "link").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="has no sockets with names")
def test_an_output_to_a_socket_is_refused(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="socket: this is a disk or a socket; expected the name of a file"):
            write_output(tmp_path / "socket", b"text")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("where", ["file", "pipe"])
@pytest.mark.parametrize("name", ["stdout", "descriptor", "/proc/self/fd/1"])
def test_an_output_to_an_open_file_comes_after_what_was_printed(tmp_path, name, where):
    (tmp_path / "stdout").symlink_to("/dev/stdout")  # links: where this fails, the devices must not be gone
    (tmp_path / "descriptor").symlink_to("/dev/fd/1")
    code = """
import sys
from pathlib import Path
from qkv.files.atomic import write_output
sys.stdout.write("before\\n")
write_output(Path(sys.argv[1]), b"output\\n")
sys.stdout.write("after\\n")
"""
    command = [sys.executable, "-c", code, str(tmp_path / name)]
    if where == "pipe":
        said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    else:
        with (tmp_path / "out").open("wb") as file:
            subprocess.run(command, cwd=ROOT, stdout=file, check=True)
        said = (tmp_path / "out").read_bytes()
    assert said == b"before\noutput\nafter\n"
    assert all((tmp_path / name).is_symlink() for name in ("stdout", "descriptor"))


def test_files_and_what_is_not_there_are_replaced_whole(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert not any(map(writable_only, (tmp_path / "file", tmp_path / "link", tmp_path / "none", tmp_path / "file/x")))


def test_a_folder_appears_when_the_block_succeeds(tmp_path):
    with new_folder(tmp_path / "new", "writes this folder") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "file").read_text() == "text"


def test_nothing_is_left_of_a_block_that_fails(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "new", "writes this folder") as folder:
        (folder / "file").touch()
        raise KeyError
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("appeared", [False, True])
def test_what_a_killed_process_has_left_is_deleted_by_the_next(tmp_path, appeared):
    """Killed while it wrote, or after the folder had appeared."""
    (tmp_path / ".new.qkv-lock").write_text("process 1 on a machine")
    hidden = temporary_path(tmp_path / "new")
    hidden.mkdir()
    (hidden / "half").touch()
    if appeared:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "file").touch()
        with pytest.raises(InputError, match="new: exists already"), new_folder(tmp_path / "new", "writes it"):
            pass
    else:
        with new_folder(tmp_path / "new", "writes it") as folder:
            (folder / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "file"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    hidden = temporary_path(tmp_path / "new")
    hidden.mkdir()
    (tmp_path / "new").touch()
    expected = rf"new: process {os.getpid()} on .* writes it at the moment"
    with folder_locked(tmp_path / ".new.qkv-lock", "writes it"):
        (hidden / "half").touch()
        with pytest.raises(InputError, match=expected), new_folder(tmp_path / "new", "writes it"):
            pass
        assert (hidden / "half").exists() and (tmp_path / "new").exists()


def test_folders_of_other_people_are_neither_deleted_nor_written_through_a_link(tmp_path):
    home = tmp_path / "home"
    place = tmp_path / "place"
    for folder in (home, place / ".new.unfinished", place / ".new.old"):
        folder.mkdir(parents=True)
        (folder / "precious").touch()
    planted = temporary_path(place / "new")
    planted.symlink_to(home)
    before = {path for path in tmp_path.rglob("*") if path != planted}
    with new_folder(place / "new", "writes it") as folder:
        (folder / "file").touch()
    assert before < set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="exists already"), new_folder(place / "new", "writes it"):
        pass
    assert before < set(tmp_path.rglob("*"))


def test_a_link_in_the_place_of_the_lock_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".new.qkv-lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match=r"\.new\.qkv-lock: this is a link"), new_folder(tmp_path / "new", "writes it"):
        pass
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "new").exists()


def test_a_folder_that_appears_in_between_is_left_alone(tmp_path):
    with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "new", "writes it"):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "other").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "other"]

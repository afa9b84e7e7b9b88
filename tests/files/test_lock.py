"""Locks on systems that have others than Linux, or none."""

import errno
import os
import socket
import sys
from types import SimpleNamespace

import pytest

from qkv.errors import InputError
from qkv.files import lock as file_lock
from qkv.files.run_directory import RunDirectory


def test_windows_locks_a_byte_that_is_never_written(tmp_path, monkeypatch):
    places, taken = [], False

    def locking(number, mode, size):
        places.append((mode, size, file.tell()))
        if taken:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(file_lock, "fcntl", None)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    with (tmp_path / "lock").open("a+", encoding="utf-8") as file:
        file_lock.lock_file(file)
        assert places == [(2, 1, file_lock.UNUSED_BYTE)]
        file.write("holder")
        file.flush()
        taken = True
        with pytest.raises(BlockingIOError):
            file_lock.lock_file(file)
    assert (tmp_path / "lock").read_text(encoding="utf-8") == "holder"


def test_a_system_without_locks_lets_everybody_have_them(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lock, "fcntl", None)
    with RunDirectory(tmp_path).locked(), RunDirectory(tmp_path).locked():
        assert list(tmp_path.iterdir())


@pytest.mark.skipif(file_lock.fcntl is None, reason="locks files by other functions")
@pytest.mark.parametrize("number", file_lock.NO_LOCKS)
def test_a_drive_without_locks_lets_everybody_have_them(number, tmp_path, monkeypatch):
    """The home folders of many a JupyterHub are on such drives."""

    def flock(file, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_lock.fcntl, "flock", flock)
    with RunDirectory(tmp_path).locked(), RunDirectory(tmp_path).locked():
        assert list(tmp_path.iterdir())


def test_a_lock_that_fails_otherwise_is_an_error(tmp_path, monkeypatch):
    def flock(file, how):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file_lock.fcntl, "flock", flock)
    with (tmp_path / "lock").open("a+", encoding="utf-8") as file, pytest.raises(OSError, match="Input/output"):
        file_lock.lock_file(file)


IN_ITS_PLACE = {
    "a link": lambda lock: lock.symlink_to(lock.with_name("precious")),
    "a link that leads nowhere": lambda lock: lock.symlink_to(lock.with_name("none")),
    "another name of a file": lambda lock: lock.hardlink_to(lock.with_name("precious")),
    "another name of a list of processes": lambda lock: lock.hardlink_to(lock.with_name("list")),
    "a file of another program": lambda lock: lock.write_text("mine"),
    "a file that begins like a lock": lambda lock: lock.write_text("process flour into dough"),
    "a folder": lambda lock: lock.mkdir(),
    "a pipe": os.mkfifo,
}


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes with names")
@pytest.mark.parametrize("put", IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
def test_what_is_no_lock_is_refused_and_left_as_it_is(put, tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "list").write_text("process 1 on a machine")
    lock = tmp_path / ".lock"
    put(lock)
    before, text = lock.lstat(), lock.read_text() if lock.is_file() else None
    expected = r"\.lock: this is a link, a folder, or a file of another program"
    with pytest.raises(InputError, match=expected), RunDirectory(tmp_path).locked():
        pass
    assert os.path.samestat(lock.lstat(), before)
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "none").exists()
    assert text is None or lock.read_text() == text


def test_a_lock_that_a_killed_process_has_left_is_taken(tmp_path):
    (tmp_path / ".lock").write_text("process 12345678901 on a machine of a longer name than this one")
    with RunDirectory(tmp_path).locked():
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert not list(tmp_path.iterdir())


def test_a_lock_that_a_full_disk_refuses_is_named(tmp_path, monkeypatch):
    def gethostname():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("socket.gethostname", gethostname)
    with pytest.raises(OSError, match=r"No space left on device: '.*\.lock'"), RunDirectory(tmp_path).locked():
        pass

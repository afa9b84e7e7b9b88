"""Locks on systems that have others than Linux, or none."""

import errno
import sys
from types import SimpleNamespace

import pytest

from pipeline import file_lock
from pipeline.run_directory import RunDirectory


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
        assert places == [(2, 1, file_lock.FAR_BYTE)]
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

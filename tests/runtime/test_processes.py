"""Whether a process runs."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pipeline.runtime.processes import is_running


def test_a_process_runs_until_it_has_ended():
    assert is_running(os.getpid()) and is_running(1)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert not is_running(ended.pid)


@pytest.mark.parametrize(("handle", "expected"), [(0, False), (7, True)])
def test_windows_is_asked_for_a_handle_and_no_process_is_ended(handle, expected, monkeypatch):
    closed = []
    kernel = SimpleNamespace(OpenProcess=lambda *_: handle, CloseHandle=lambda given: closed.append(given) or 1)
    monkeypatch.setattr("ctypes.windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "kill")
    assert is_running(5) is expected and closed == [handle] * expected

"""What the machine is asked, by what its system has."""

import os
import sys
from types import SimpleNamespace

import pytest

from pipeline.runtime import machine


class Resource:
    """The module, whatever it is asked: the peak is in kilobytes on Linux, in bytes on macOS."""

    RUSAGE_SELF = 0

    def __getattr__(self, name):
        return lambda who: SimpleNamespace(ru_maxrss=2048)


@pytest.mark.parametrize(("platform", "expected"), [("linux", 2 << 20), ("darwin", 2048)])
def test_peak_memory_is_in_bytes(platform, expected, monkeypatch):
    monkeypatch.setattr(machine, "resource", Resource())
    monkeypatch.setattr(sys, "platform", platform)
    assert machine.peak_memory() == expected


def test_a_system_that_tells_no_memory_is_no_error(monkeypatch):
    monkeypatch.setattr(machine, "resource", None)
    monkeypatch.delattr(os, "sysconf")
    assert machine.peak_memory() is machine.total_memory() is None


def test_this_process_takes_less_than_the_machine_has():
    assert 10 << 20 < machine.peak_memory() < machine.total_memory()

"""What the machine is asked, by what its system has."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from qkv.runtime import machine
from qkv.runtime.machine import cpu_quota, has_nvidia_device, is_running, why_unseen


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


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "own", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),  # as a container sees its own group
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b\n", 4),  # the one around it
        ({"a/cpu.max": "200000 100000", "a/b/cpu.max": "300000 100000"}, "0::/a/b\n", 2),  # the lowest
        ({"other/cpu.max": "100000 100000"}, "0::/a\n", None),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/\n",
            0.5,
        ),
        ({"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/x\n", None),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, "3:memory:/y\n4:cpu:/only/of/host", 3),
        ({"cpu.max": "100000 0\n"}, "0::/\n", None),
        ({"cpu.max": "many\n"}, "0::/\n", None),
        ({}, "", None),
        ({}, "no colon", None),
    ],
)
def test_the_lowest_quota_of_a_group_or_those_around_it_holds(tmp_path, files, own, expected):
    for name, text in files.items():
        write(tmp_path / "groups" / name, text)
    write(tmp_path / "own", own)
    write(tmp_path / "cpu.max", "100000 100000")  # not within the groups
    assert cpu_quota(tmp_path / "groups", tmp_path / "own") == expected


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path, tmp_path / "missing") is None


@pytest.mark.parametrize(("quota", "expected"), [(None, 8), (0.5, 1), (1.5, 2), (3.0, 3), (64.0, 8)])
def test_a_part_of_a_core_counts_as_a_core_and_a_quota_makes_none(monkeypatch, quota, expected):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)
    assert machine.usable_cores() == expected


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system without a GPU, in which tests put files."""
    monkeypatch.setattr(machine, "DEVICES", str(tmp_path / "dev"))
    monkeypatch.setattr(machine, "DRIVER", str(tmp_path / "driver"))
    monkeypatch.setattr(machine, "WINDOWS_GPU", str(tmp_path / "dev" / "dxg"))
    monkeypatch.setattr(machine, "WINDOWS_LIBRARY", str(tmp_path / "libcuda.so.1"))
    monkeypatch.setattr(machine, "LIBRARIES", ["no_such_package", "no_such_package.cudnn"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "dev").mkdir()
    return tmp_path


def test_nothing_is_said_without_a_gpu(system):
    (system / "dev" / "nvidiactl").touch()  # the driver's own
    (system / "driver").mkdir()
    assert not has_nvidia_device()
    assert why_unseen() is None


def test_the_program_alone_is_no_gpu(system, monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert why_unseen() is None


@pytest.mark.parametrize("files", [["dev/nvidia0"], ["dev/nvidia3"], ["dev/dxg", "libcuda.so.1"]])
def test_without_libraries_the_extra_is_named(files, system):
    for file in files:
        (system / file).touch()
    assert has_nvidia_device()
    assert why_unseen() == 'CUDA\'s libraries are missing: python -m pip install ".[gpu]"'


def test_with_libraries_tensorflow_is_asked(system, monkeypatch):
    (system / "dev" / "nvidia0").touch()
    monkeypatch.setattr(machine, "LIBRARIES", ["json"])
    assert "TF_CPP_MIN_LOG_LEVEL=0 python -c" in why_unseen()


def test_a_container_without_the_device_of_its_machine_is_told_how_to_get_it(system):
    (system / "driver" / "0000:01:00.0").mkdir(parents=True)
    assert not has_nvidia_device()
    assert "--gpus all" in why_unseen()


def test_on_windows_the_way_is_its_linux(system, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"C:/{name}.exe")
    assert "WSL2" in why_unseen()


@pytest.mark.parametrize(("value", "hidden"), [("-1", True), ("", True), ("0", False), ("1,0", False)])
def test_a_gpu_that_is_hidden_on_purpose_is_none(value, hidden, system, monkeypatch):
    (system / "dev" / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert has_nvidia_device() is not hidden
    assert (why_unseen() is None) is hidden


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

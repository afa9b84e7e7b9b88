"""Whether a GPU of NVIDIA is there, by files of the system; and what to do if TensorFlow sees none."""

import sys

import pytest

from pipeline.runtime import nvidia
from pipeline.runtime.nvidia import has_nvidia_device, why_unseen


@pytest.fixture(autouse=True)
def system(tmp_path, monkeypatch):
    """A system without a GPU, in which tests put files."""
    monkeypatch.setattr(nvidia, "DEVICES", str(tmp_path / "dev"))
    monkeypatch.setattr(nvidia, "DRIVER", str(tmp_path / "driver"))
    monkeypatch.setattr(nvidia, "WINDOWS_GPU", str(tmp_path / "dev" / "dxg"))
    monkeypatch.setattr(nvidia, "WINDOWS_LIBRARY", str(tmp_path / "libcuda.so.1"))
    monkeypatch.setattr(nvidia, "LIBRARIES", "no_such_package.cudnn")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "dev").mkdir()
    return tmp_path


def test_nothing_is_said_without_a_gpu(system):
    (system / "dev" / "nvidiactl").touch()  # the driver's own
    (system / "driver").mkdir()
    assert not has_nvidia_device()
    assert why_unseen() is None


def test_the_program_alone_is_no_gpu(monkeypatch):
    monkeypatch.setattr(nvidia.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert why_unseen() is None


@pytest.mark.parametrize("files", [["dev/nvidia0"], ["dev/nvidia3"], ["dev/dxg", "libcuda.so.1"]])
def test_without_libraries_the_extra_is_named(files, system):
    for file in files:
        (system / file).touch()
    assert has_nvidia_device()
    assert why_unseen() == 'CUDA\'s libraries are missing: python -m pip install ".[gpu]"'


def test_with_libraries_tensorflow_is_asked(system, monkeypatch):
    (system / "dev" / "nvidia0").touch()
    monkeypatch.setattr(nvidia, "LIBRARIES", "json")
    assert "TF_CPP_MIN_LOG_LEVEL=0 python -c" in why_unseen()


def test_a_container_without_the_device_of_its_machine_is_told_how_to_get_it(system):
    (system / "driver" / "0000:01:00.0").mkdir(parents=True)
    assert not has_nvidia_device()
    assert "--gpus all" in why_unseen()


def test_on_windows_the_way_is_its_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(nvidia.shutil, "which", lambda name: f"C:/{name}.exe")
    assert "WSL2" in why_unseen()


@pytest.mark.parametrize(("value", "hidden"), [("-1", True), ("", True), ("0", False), ("1,0", False)])
def test_a_gpu_that_is_hidden_on_purpose_is_none(value, hidden, system, monkeypatch):
    (system / "dev" / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert has_nvidia_device() is not hidden
    assert (why_unseen() is None) is hidden

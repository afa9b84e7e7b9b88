"""What is done around the import of TensorFlow."""

import importlib
import os
import sys

import pytest

from pipeline.runtime import import_tensorflow
from pipeline.runtime.import_tensorflow import hidden, importing_tensorflow


def test_hidden_libraries_cannot_be_imported_until_the_block_ends(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with hidden("colorsys", "json"):
        with pytest.raises(ImportError):
            importlib.import_module("colorsys")
        assert importlib.import_module("json") is sys.modules["json"]  # loaded already
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_hidden_libraries_come_back_after_an_error(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(RuntimeError), hidden("colorsys"):
        raise RuntimeError
    assert importlib.import_module("colorsys").rgb_to_hsv


@pytest.mark.parametrize("has_gpu", [False, True])
def test_onednn_is_switched_on_where_no_gpu_computes_and_memory_grows_as_needed(has_gpu, monkeypatch):
    names = ("TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH")
    for name in names:
        monkeypatch.setenv(name, "")  # so that the value of before comes back
        monkeypatch.delenv(name)
    monkeypatch.setattr(import_tensorflow, "has_nvidia_device", lambda: has_gpu)
    with importing_tensorflow():
        pass
    assert [os.environ.get(name) for name in names] == [None if has_gpu else "1", "true"]


def test_settings_of_the_environment_are_kept(monkeypatch):
    for name in ("TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH"):
        monkeypatch.setenv(name, "0")
    with importing_tensorflow():
        pass
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "0"

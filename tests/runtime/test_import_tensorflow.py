"""What is done around the import of TensorFlow."""

import gc
import importlib
import os
import subprocess
import sys

import pytest

from pipeline.errors import InputError
from pipeline.runtime import import_tensorflow
from pipeline.runtime.import_tensorflow import hidden, importing_tensorflow
from tests.tiny_runs import ROOT


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


IMPORTED = """
from pipeline.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import keras
config = keras.config
print(config.backend(), config.floatx(), config.epsilon(), config.image_data_format(), config.dtype_policy().name)
"""


@pytest.mark.parametrize(
    "settings", ['{"backend": "jax", "floatx": "float16", "epsilon": 0.1}', '{"floatx": "bfloat16"}', "[]"]
)
def test_what_is_set_for_keras_in_other_projects_changes_nothing(settings, tmp_path):
    (tmp_path / "keras.json").write_text(settings, encoding="utf-8")
    others = {"KERAS_HOME": str(tmp_path), "KERAS_BACKEND": "torch", "KERAS_NNX_ENABLED": "1"}
    command = [sys.executable, "-c", IMPORTED]
    answer = subprocess.run(command, cwd=ROOT, env=os.environ | others, capture_output=True, text=True)
    assert answer.stdout == "tensorflow float32 1e-07 channels_last float32\n", answer.stderr


def test_another_backend_that_was_imported_before_is_named(monkeypatch):
    monkeypatch.setattr("keras.config.backend", lambda: "jax")
    with pytest.raises(InputError, match="with the backend jax; expected tensorflow"), importing_tensorflow():
        pass


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_again_after_the_block_if_it_was_before(enabled):
    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    try:
        gc.enable() if enabled else gc.disable()
        with importing_tensorflow():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        assert gc.get_freeze_count() == frozen  # what is frozen is never looked at again, a notebook's garbage too
    finally:
        gc.enable() if was_enabled else gc.disable()


def test_tensorflow_computes_as_many_operations_at_once_as_the_process_may_use_cores(monkeypatch):
    names = ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(import_tensorflow, "usable_cores", lambda: 5)
    with importing_tensorflow():
        pass
    assert [os.environ[name] for name in names] == ["5", "3"]

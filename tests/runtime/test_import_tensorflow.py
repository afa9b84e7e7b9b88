"""What is done around the import of TensorFlow, and what the environment tells it."""

import gc
import importlib
import json
import os
import resource
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest

from qkv import api
from qkv.errors import InputError
from qkv.runtime import import_tensorflow
from qkv.runtime.import_tensorflow import (
    LEAST_ADDRESS_SPACE,
    THREAD_VARIABLES,
    check_environment,
    hidden_libraries,
    importing_tensorflow,
    refuse_after_fork,
)
from tests.support import ROOT


def test_hidden_libraries_cannot_be_imported_until_the_block_ends(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with hidden_libraries("colorsys", "json"):
        with pytest.raises(ImportError):
            importlib.import_module("colorsys")
        assert importlib.import_module("json") is sys.modules["json"]  # loaded already
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_hidden_libraries_come_back_after_an_error(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(RuntimeError), hidden_libraries("colorsys"):
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
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import keras
    from tensorflow.python.framework.config import tensor_float_32_execution_enabled as rounded
config = keras.config
print(config.backend(), config.floatx(), config.epsilon(), config.image_data_format(), config.dtype_policy().name)
print(rounded())
import qkv.run.trained_run
print(rounded())
"""


@pytest.mark.minutes
def test_settings_of_other_projects_change_nothing_and_runs_make_products_of_float32_full(tmp_path):
    settings = {"backend": "jax", "floatx": "float16", "epsilon": 0.1}
    (tmp_path / "keras.json").write_text(json.dumps(settings), encoding="utf-8")
    others = {"KERAS_HOME": str(tmp_path), "KERAS_BACKEND": "torch", "KERAS_NNX_ENABLED": "1"}
    command = [sys.executable, "-c", IMPORTED]
    answer = subprocess.run(command, cwd=ROOT, env=os.environ | others, capture_output=True, text=True)
    assert answer.stdout == "tensorflow float32 1e-07 channels_last float32\nTrue\nFalse\n", answer.stderr


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


@pytest.mark.parametrize("name", THREAD_VARIABLES)
@pytest.mark.parametrize("value", ["-1", "x", "1.5", "1e3", "99999999999999999999", "10001", "2,-1", "²", "0x2"])
def test_a_number_of_threads_that_is_none_is_refused(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name}: expected a number of threads"):
        check_environment()


@pytest.mark.parametrize("value", ["", "0", "1", "16", "4,2"])
def test_numbers_of_threads_are_fine(value, monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, value)
    check_environment()


@pytest.mark.parametrize(
    "value",
    [
        *("x", "[]", "1", "null", "[" * 100_000, '{"cluster": []}', '{"cluster": {"worker": "a:1"}}'),
        *('{"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}', '{"cluster": {"worker": ["a:1"]}}'),
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": [], "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": []}',
    ],
)
def test_machines_that_are_none_are_refused(value, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(InputError, match=r'TF_CONFIG: expected \{"cluster"'):
        check_environment()


def test_too_little_address_space_is_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LEAST_ADDRESS_SPACE - 1, -1))
    with pytest.raises(InputError, match=r"the address space is limited to 4095 MiB; .* ulimit -v unlimited"):
        check_environment()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LEAST_ADDRESS_SPACE, -1))
    check_environment()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(act):
    """Whether the `InputError` of forks is raised in a child of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 and later: this process has threads
        child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except InputError as error:
            os._exit(2 if "load the run after the fork" in str(error) else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.parametrize("computed", [True, False])
def test_only_a_child_of_a_process_that_has_computed_is_refused(monkeypatch, computed):
    context = SimpleNamespace(context_safe=lambda: SimpleNamespace(_initialized=computed))
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", context)
    assert in_child(refuse_after_fork) == (2 if computed else 0)
    refuse_after_fork()  # the parent goes on


@needs_fork
def test_tensorflow_says_whether_it_has_computed():
    import tensorflow as tf

    tf.constant(1)
    assert in_child(refuse_after_fork) == 2


def test_every_door_of_a_run_is_closed_in_such_a_child(unbroken, monkeypatch):
    run = api.load(unbroken)
    monkeypatch.setattr(import_tensorflow, "_is_unusable", True)
    pair = "the cat sleeps .", "le chat dort ."
    doors = [
        lambda: api.load(unbroken),
        lambda: api.import_marian(unbroken, unbroken),
        lambda: run.translate(pair[0]),
        lambda: run.translate(pair[0], beam_size=1),
        lambda: run.align(*pair),
        lambda: run.evaluate(),
        lambda: run.export("saved_model", "exported"),
        lambda: run.cache([pair]),
        lambda: run.patch(pair, pair, ["*"]),
        lambda: run.explain(pair, "decoder.0.cross", head=0, row=0),
        lambda: run.trained.recorder(["cross"]),
    ]
    for door in doors:
        with pytest.raises(InputError, match="forked after TensorFlow"):
            door()

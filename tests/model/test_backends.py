"""Every layer and architecture computes on JAX and on PyTorch what it computes on TensorFlow, gradients and searches
included. Where PyTorch is missing, as in the tests' environment, its tests are skipped."""

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.support import ROOT
from tests.support.other_backend import COMPARED_LAYERS, KINDS, compute

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

BACKENDS = ("jax", "torch")
SETTINGS = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
TOLERANCES = {
    "output": 2e-5,
    "gradient": 1e-4,
    "packed": 2e-5,
    "greedy": 1e-5,
    "beam": 1e-5,
    "generate": 1e-5,
    "fit": 1e-5,
    "load": 1e-4,
}


@pytest.fixture(scope="module", params=BACKENDS)
def results(request, tmp_path_factory):
    """The results on TensorFlow, of this process, and on another backend, with the same weights."""
    backend, folder = request.param, tmp_path_factory.mktemp(request.param)
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    assert keras.backend.backend() == "tensorflow"
    results = compute()
    weights = {f"{name}/{i}": x for name, (arrays, _) in results.items() for i, x in enumerate(arrays)}
    np.savez(folder / "weights.npz", **weights)
    files = [str(folder / "weights.npz"), str(folder / "results.npz")]
    environment = os.environ | SETTINGS | {"KERAS_BACKEND": backend}
    command = [sys.executable, "-m", "tests.support.other_backend", *files]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = np.load(files[1])
    assert str(found["backend"]) == backend
    return {name: kinds for name, (_, kinds) in results.items()}, found


def assert_same(results, name, kind):
    expected, found = results[0][name][kind], results[1]
    keys = [key for key in found.files if key.startswith(f"{name}/{kind}/")]
    assert keys == [f"{name}/{kind}/{i}" for i in range(len(expected))]
    for key, array in zip(keys, expected, strict=True):
        np.testing.assert_allclose(found[key], array, rtol=2e-4, atol=TOLERANCES[kind], err_msg=key)


@pytest.mark.parametrize("name", COMPARED_LAYERS)
def test_a_layer_computes_the_same_and_has_the_same_gradients_on_another_backend(results, name):
    for kind in ("output", "gradient"):
        assert_same(results, name, kind)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for kind, names in KINDS.items() for name in names])
def test_a_model_computes_searches_fits_and_loads_the_same_on_another_backend(results, name, kind):
    assert_same(results, name, kind)

"""Every layer and architecture computes on JAX and on PyTorch what it computes on TensorFlow, its gradients included;
and so do the searches."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.on_a_backend import LAYERS, compute
from tests.tiny_models import MODELS

NEEDS = {"jax": "jax", "torch": "torch"}
CASES = dict.fromkeys(LAYERS, ("output", "gradient"))
CASES |= dict.fromkeys(MODELS, ("output", "gradient", "greedy", "beam", "fit"))


@pytest.fixture(scope="module")
def on_tensorflow(tmp_path_factory):
    """The results of this process, and the file of the weights with which they were computed."""
    assert keras.backend.backend() == "tensorflow"
    path = tmp_path_factory.mktemp("weights") / "weights.npz"
    results = compute()
    np.savez(path, **{f"{name}/{i}": x for name, (weights, _) in results.items() for i, x in enumerate(weights)})
    return results, path


@pytest.fixture(scope="module", params=NEEDS)
def both(request, on_tensorflow, tmp_path_factory):
    """The results on TensorFlow and on another backend."""
    if importlib.util.find_spec(NEEDS[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    results, weights = on_tensorflow
    path = tmp_path_factory.mktemp(request.param) / "results.npz"
    environment = os.environ | {
        "KERAS_BACKEND": request.param,
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    command = [sys.executable, "-m", "tests.on_a_backend", str(weights), str(path)]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = np.load(path)
    assert str(found["backend"]) == request.param
    return results, found


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in CASES.items() for kind in kinds])
def test_another_backend_computes_the_same(both, name, kind):
    results, found = both
    expected = results[name][1][kind]
    prefix = f"{name}/{kind}/"
    arrays = [found[f"{prefix}{i}"] for i in range(len(expected))]
    assert len([key for key in found.files if key.startswith(prefix)]) == len(expected)
    for one, other in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 if kind != "output" else 2e-5)

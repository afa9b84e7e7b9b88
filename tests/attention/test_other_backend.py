"""Every attention layer says on JAX what it says on TensorFlow, which is what `keras.ops` alone is for.

Keras has one backend a process, so JAX's runs this file as a program: `python -m tests.attention.test_other_backend
WEIGHTS RESULTS` reads the weights of every case and writes what its layer returns.
"""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.attention.test_attention_contract import ATTENTION_CASES, MASKED_CASES, SCORE_CASES
from tests.layer_contract import arrays

CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("score", SCORE_CASES), ("attention", ATTENTION_CASES), ("masked", MASKED_CASES))
    for name, case in cases.items()
}


def write_results(weights_path, results_path):
    """Runs every case's layer with the weights in one file and writes its results into another."""
    weights = np.load(weights_path)
    results = {}
    for name, case in CASES.items():
        layer, inputs = case.make(), case.draw()
        layer(**inputs)
        layer.set_weights([weights[f"{name}/{i}"] for i in range(len(layer.weights))])
        results |= {f"{name}/{i}": result for i, result in enumerate(arrays(layer(**inputs)))}
    np.savez(results_path, backend=keras.backend.backend(), **results)


@pytest.fixture(scope="module")
def on_jax(tmp_path_factory):
    """The layers with weights off their initial values, and what they return on JAX."""
    folder = tmp_path_factory.mktemp("jax")
    layers = {name: case.shared for name, case in CASES.items()}
    np.savez(
        folder / "weights.npz",
        **{f"{name}/{i}": x for name, layer in layers.items() for i, x in enumerate(layer.get_weights())},
    )
    files = [str(folder / "weights.npz"), str(folder / "results.npz")]
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-m", "tests.attention.test_other_backend", *files]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    results = np.load(files[1])
    assert (keras.backend.backend(), str(results["backend"])) == ("tensorflow", "jax")
    return layers, results


@pytest.mark.parametrize("name", CASES)
def test_a_layer_returns_the_same_numbers_on_jax(on_jax, name):
    layers, results = on_jax
    expected = arrays(layers[name](**CASES[name].draw()))
    found = [results[key] for key in results.files if key.rpartition("/")[0] == name]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


if __name__ == "__main__":
    write_results(*sys.argv[1:])

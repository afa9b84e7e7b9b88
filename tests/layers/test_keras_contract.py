"""Every layer passes Keras' own contract test: on TensorFlow at once; under mixed precision, on JAX and, where it is
installed, on PyTorch with `make contract`, by hand, since each backend takes minutes."""

import importlib.util
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from qkv.model.transformer import BlockSpec, DecoderBlock, EncoderBlock
from tests.support import ROOT
from tests.support.keras_contract import CASES, DTYPES, check

SETTINGS = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


@pytest.mark.parametrize(
    "name",
    [  # attention/test_attention_contract.py asks more of layers of attention, and at once
        pytest.param(name, marks=[pytest.mark.minutes] * name.startswith(("attention", "mechanism", "score")))
        for name in CASES
        if not name.startswith("masked")
    ],
)
def test_a_layer_passes_the_contract_test_of_keras(name):
    check(name, train=False)


@pytest.fixture(scope="module")
def failures(request, tmp_path_factory):
    """What failed on a backend: messages by dtype and case."""
    if "ALL_BACKENDS" not in os.environ:
        pytest.skip("make contract runs all backends")
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    path = tmp_path_factory.mktemp(request.param) / "failures.json"
    environment = os.environ | SETTINGS | {"KERAS_BACKEND": request.param}
    command = [sys.executable, "-m", "tests.support.keras_contract", str(path)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["backend"] == request.param
    return found


@pytest.mark.minutes
@pytest.mark.parametrize("failures", ["tensorflow", "jax", "torch"], indirect=True)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_layers_pass_the_contract_test_of_keras_on_each_backend(failures, dtype):
    assert {name: message for name, message in failures[dtype].items() if message} == {}
    assert failures[dtype].keys() == CASES.keys()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_blocks_stack_in_a_functional_model_and_come_back_from_its_file(dtype, tmp_path):
    spec = BlockSpec(d_model=8, num_heads=2, d_ff=6)
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(11, 8, mask_zero=True, dtype=dtype)
    memory, x = embedding(source), embedding(target)
    for _ in range(2):
        memory, *_ = EncoderBlock(spec, dtype=dtype)(memory)
    for _ in range(2):
        x, own, cross, keys_values = DecoderBlock(spec, dtype=dtype)(x, memory)
    assert [each.shape for each in keys_values] == [(None, 2, None, 4)] * 2
    model = keras.Model([source, target], [keras.layers.Dense(11, dtype="float32")(x), own, cross])
    ids = [np.array([[7, 2, 5, 0, 0], [1, 3, 9, 1, 4]]), np.array([[4, 3, 0], [2, 9, 6]])]
    outputs = model(ids)
    assert [each.shape for each in outputs] == [(2, 3, 11), (2, 2, 3, 3), (2, 2, 3, 5)]
    assert (outputs[2].numpy()[0, :, :, 3:] == 0).all()  # the mask of the source came through both stacks
    model.save(tmp_path / "stack.keras")
    for found, expected in zip(keras.saving.load_model(tmp_path / "stack.keras")(ids), outputs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_symbolic_step_of_a_block_counts_the_positions_before_it():
    spec = BlockSpec(d_model=8, num_heads=2, d_ff=6)
    before = keras.KerasTensor((2, 2, 4, 4)), keras.KerasTensor((2, 2, 4, 4))
    x, memory = keras.KerasTensor((2, 1, 8)), keras.KerasTensor((2, 5, 8))
    weights, (keys, _) = EncoderBlock(spec)(x, before=before)[1:]
    assert weights.shape == (2, 2, 1, 5)
    assert keys.shape == (2, 2, 5, 4)
    own, cross, (keys, _) = DecoderBlock(spec)(x, memory, before=before)[1:]
    assert [each.shape for each in (own, cross, keys)] == [(2, 2, 1, 5), (2, 2, 1, 5), (2, 2, 5, 4)]

"""Keras' own contract test over every layer, on the backend of this process: the others run
`python -m tests.support.keras_contract RESULTS`, which writes what failed as JSON, a message by dtype and case."""

import json
import sys
from functools import partial
from pathlib import Path

import keras
from keras.src.testing import TestCase

from qkv.attention.additive import AdditiveAttention
from qkv.attention.cross_attention import CrossAttention
from qkv.attention.mechanisms import MECHANISM_CLASSES
from qkv.layers.keras_layers import Dropout
from qkv.model.decoder_only import CausalBlock
from qkv.model.embedding import PositionalEmbedding
from qkv.model.recurrent import DECODERS
from tests.support.layer_cases import THREE, TWO, block, heads, linformer, lsh
from tests.support.layer_contract import B, LayerCase, S, T
from tests.support.other_backend import LAYERS

DTYPES = ("float32", "mixed_float16", "mixed_bfloat16", "bfloat16")
PAIRS = {"query": (B, 2, T, 4), "key": (B, 2, S, 4), "value": (B, 2, S, 3)}
arguments_of_keras = {
    "kernel_initializer": keras.initializers.HeNormal(),
    "kernel_regularizer": keras.regularizers.L2(0.1),
    "seed": 3,
}
CASES = {
    **LAYERS,
    **{f"mechanism: {name}": LayerCase(mechanism, PAIRS) for name, mechanism in MECHANISM_CLASSES.items()},
    "mechanism: linformer": LayerCase(linformer, PAIRS),
    "mechanism: lsh": LayerCase(lsh, PAIRS | {"query": (B, 2, S, 4)}),  # of one sequence
    "part: causal block": LayerCase(block(CausalBlock), {"x": (B, S, 8)}),
    "part: rotary positions": LayerCase(partial(PositionalEmbedding, "rotary", 9), {"x": (B, T, 8)}),
    "layer: dropout": LayerCase(partial(Dropout, 0.5), {"inputs": (B, S, 8)}),
    "attention: cross with arguments of Keras": LayerCase(
        heads(CrossAttention, **arguments_of_keras, bias_initializer="ones"), TWO
    ),
    "attention: additive with arguments of Keras": LayerCase(
        partial(AdditiveAttention, 4, mechanism=linformer(), **arguments_of_keras), THREE
    ),
    # Called with functions, which no array stands for: Keras sees their configs alone.
    **{f"decoder: {name}": LayerCase(partial(decoder, 4, 6), {}) for name, decoder in DECODERS.items()},
}


def check(name, dtype="float32", train=True):
    """Runs Keras' contract test over a case: configs, `build`, symbolic calls, which must say of shapes and dtypes what
    calls return, calls under mixed_float16, and an update by `fit` where there is one input.

    Raises:
        AssertionError: the contract is broken; or whatever the layer raises.
    """
    case = CASES[name]
    arguments = {"run_training_check": train and len(case.inputs) == 1}
    if case.inputs:
        inputs = case.draw()
        shapes = {each: x.shape for each, x in inputs.items() if each in case.inputs and "positions" not in each}
        arguments["call_kwargs"] = {each: x for each, x in inputs.items() if each not in shapes}
        arguments["input_shape"] = {f"{each}_shape": shape for each, shape in shapes.items()}
        if len(shapes) == 1:
            [arguments["input_shape"]] = shapes.values()
            arguments["input_dtype"] = "int32" if case.vocabulary else "float32"
        outputs = case.make(dtype=dtype)(**inputs)
        arguments["expected_output_shape"] = keras.tree.map_structure(lambda x: tuple(x.shape), outputs)
        arguments["expected_output_dtype"] = keras.tree.map_structure(
            lambda x: keras.backend.standardize_dtype(x.dtype), outputs
        )
    TestCase().run_layer_test(case.make, {"dtype": dtype}, **arguments)


def message(name, dtype):
    """What a case breaks, empty for nothing."""
    try:
        check(name, dtype)
    except Exception as error:  # of any kind: all are put down
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    found = {dtype: {name: message(name, dtype) for name in CASES} for dtype in DTYPES}
    Path(sys.argv[1]).write_text(json.dumps({"backend": keras.backend.backend(), **found}), encoding="utf-8")

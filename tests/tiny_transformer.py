"""Transformers small enough to run hundreds of times, with weights far from zero so that every path matters."""

import json

import numpy as np

from qkv.model.transformer import Transformer
from tests.layer_contract import stir

SIZES = {
    "vocabulary_size": 17,
    "d_model": 8,
    "num_heads": 2,
    "d_ff": 12,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "max_positions": 12,
}
SOURCE = np.array([[5, 9, 4, 16, 7, 3, 0], [8, 6, 3, 0, 0, 0, 0], [11, 12, 13, 14, 15, 4, 3]], "int32")
TARGET = np.array([[2, 7, 10, 13, 5], [2, 4, 0, 0, 0], [2, 16, 15, 6, 0]], "int32")


def make_transformer(**settings):
    """A new model with the tiny sizes, built and stirred."""
    model = Transformer(**(SIZES | settings))
    model(SOURCE, TARGET)
    return stir(model)


_SHARED = {}


def shared_transformer(**settings):
    """The same, once for all tests: for those that do not change it."""
    key = json.dumps(settings, sort_keys=True)
    if key not in _SHARED:
        _SHARED[key] = make_transformer(**settings)
    return _SHARED[key]

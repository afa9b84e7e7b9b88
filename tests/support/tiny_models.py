"""Models small enough to run hundreds of times, one of every architecture, with weights far from zero so that every
path matters."""

import json

import keras
import numpy as np

from qkv.model.decoder_only import DecoderOnly
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from tests.support.layer_contract import stir

SIZES = {
    "vocabulary_size": 17,
    "d_model": 8,
    "num_heads": 2,
    "d_ff": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
    "max_positions": 12,
}
TWO_LAYERS = {"encoder_layers": 2, "decoder_layers": 2}  # where one must be told from the other
SOURCE = np.array([[5, 9, 4, 16, 7, 3, 0], [8, 6, 3, 0, 0, 0, 0], [11, 12, 13, 14, 15, 4, 3]], "int32")
TARGET = np.array([[2, 7, 10, 13, 5], [2, 4, 0, 0, 0], [2, 16, 15, 6, 0]], "int32")
RECURRENT = {
    "vocabulary_size": 17,
    "embedding_dim": 8,
    "hidden_dim": 6,
    "attention_dim": 5,
    "dropout": 0.0,
    "max_positions": 12,
}
DECODER_ONLY = {
    "vocabulary_size": 17,
    "d_model": 8,
    "num_heads": 2,
    "d_ff": 12,
    "layers": 1,
    "dropout": 0.0,
    "max_positions": 12,
}


def every_site(**settings):
    """The same arguments of attention at the Transformer's three sites."""
    return dict.fromkeys(("encoder_self", "decoder_self", "cross"), settings)


MODELS = {
    "transformer": (Transformer, SIZES),
    "transformer of other sizes": (
        Transformer,
        SIZES
        | TWO_LAYERS
        | {"num_heads": 3, "norm": "post", "positions": "learned"}
        | every_site(key_dim=5, value_dim=3),
    ),
    "transformer without projections": (
        Transformer,
        SIZES | {"positions_on": "queries_and_keys"} | every_site(projection=False, value_projection=False),
    ),
    "transformer of odd mechanisms": (
        Transformer,
        SIZES
        | {
            "encoder_self": {"mechanism": "uniform"},
            "decoder_self": {"mechanism": "last"},
            "cross": {"mechanism": "one_hot"},
        },
    ),
    "rotary transformer with shared keys and a sink": (
        Transformer,
        SIZES
        | {"positions": "rotary"}
        | every_site(key_value_heads=1)
        | {"cross": {"mechanism": "sink", "key_value_heads": 1}},
    ),
    "recurrent": (Recurrent, RECURRENT),
    "recurrent of one context vector": (Recurrent, RECURRENT | {"cross_attention": "none"}),
    "luong": (
        Recurrent,
        RECURRENT
        | {"cross_attention": "general", "decoder": "luong", "input_feeding": True, "tie_embeddings": "target"},
    ),
    "decoder-only": (DecoderOnly, DECODER_ONLY),
    "decoder-only post": (
        DecoderOnly,
        DECODER_ONLY
        | {
            "layers": 2,
            "norm": "post",
            "positions": "learned",
            "positions_on": "queries_and_keys",
            "tie_embeddings": "none",
            "decoder_self": {"score": "additive"},
        },
    ),
    "decoder-only with ALiBi and a sink": (
        DecoderOnly,
        DECODER_ONLY | {"positions": "alibi", "decoder_self": {"mechanism": "sink"}},
    ),
}
_SHARED: dict = {}


def make_model(architecture, **settings):
    """A new model, built and stirred."""
    model = architecture(**settings)
    model(SOURCE, TARGET)
    return stir(model)


def shared_model(architecture, **settings):
    """The same, once for all tests: for those that do not change it."""
    key = architecture.__name__ + json.dumps(settings, sort_keys=True)
    if key not in _SHARED:
        keras.utils.set_random_seed(0)  # the same weights, whichever test is first
        _SHARED[key] = make_model(architecture, **settings)
    return _SHARED[key]


def model_of(name):
    """One of `MODELS`, which all tests share."""
    architecture, settings = MODELS[name]
    return shared_model(architecture, **settings)


def make_transformer(**settings):
    """A new Transformer of the tiny sizes."""
    return make_model(Transformer, **SIZES | settings)


def shared_transformer(**settings):
    """The same, once for all tests: for those that do not change it."""
    return shared_model(Transformer, **SIZES | settings)

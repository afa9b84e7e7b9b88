"""Keras' own multi-head attention, taken over with its weights."""

import keras
import numpy as np
import pytest

from qkv.attention import MultiHeadAttention, from_keras
from tests.support.layer_contract import assert_close, stir

X, MEMORY = (np.random.default_rng(0).normal(size=shape).astype("float32") for shape in ((2, 3, 8), (2, 5, 6)))
MASK = np.random.default_rng(1).random((2, 1, 3, 5)) < 0.6
MASK[..., 0] = True  # a query without keys is another thing in Keras


def keras_layer(**settings):
    layer = keras.layers.MultiHeadAttention(**{"num_heads": 2, "key_dim": 4, "value_dim": 3, **settings})
    layer(X, MEMORY)
    return stir(layer)


@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
@pytest.mark.parametrize("output_shape", [None, 5])
@pytest.mark.parametrize("use_bias", [True, False])
def test_context_and_weights_equal_those_of_the_keras_layer(use_bias, output_shape, mask):
    peer = keras_layer(use_bias=use_bias, output_shape=output_shape)
    layer = from_keras(peer)
    expected = peer(X, MEMORY, attention_mask=mask, return_attention_scores=True)
    for found, wanted in zip(layer(X, MEMORY, attention_mask=mask), expected, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert layer.count_params() == peer.count_params()


def test_multi_head_attention_takes_keys_and_values_of_two_widths():
    peer = keras.layers.MultiHeadAttention(2, 4, value_dim=3)
    value = np.random.default_rng(2).normal(size=(2, 5, 7)).astype("float32")
    peer(X, value, MEMORY)
    stir(peer)
    layer = from_keras(peer, MultiHeadAttention)
    expected = peer(X, value, MEMORY, return_attention_scores=True)
    assert_close(layer(X, key=MEMORY, value=value), expected, 1e-6)
    with pytest.raises(ValueError, match="keys of width 6 and values of width 7; use kind=MultiHeadAttention"):
        from_keras(peer)


def test_dropout_dtype_and_name_are_taken_over_or_given():
    peer = keras_layer(dropout=0.25, dtype="mixed_bfloat16")
    layer = from_keras(peer, name="mine")
    assert (layer.mechanism.dropout.rate, layer.compute_dtype, layer.name) == (0.25, "bfloat16", "mine")
    assert from_keras(peer, dtype="float32").compute_dtype == "float32"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras.layers.AdditiveAttention(), "MultiHeadAttention, found AdditiveAttention"),
        (lambda: keras.layers.Dense(2), "expected a keras.layers.MultiHeadAttention, found Dense"),
        (lambda: keras.layers.MultiHeadAttention(2, 4), "expected a built layer"),
        (lambda: keras_layer(use_gate=True), "use_gate"),
        (lambda: keras_layer(sliding_window=2), "sliding_window"),
        (lambda: keras_layer(output_shape=(2, 3)), "output_shape of one axis"),
    ],
)
def test_what_has_no_counterpart_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        from_keras(make())

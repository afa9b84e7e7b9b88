"""Attention layers of Keras, converted to those of the package with their weights, and back."""

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention, from_keras, to_keras
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


def build(layer, *inputs):
    layer(*inputs)
    return stir(layer)


def grouped_layer(key_value_heads, **settings):
    return build(keras.layers.GroupQueryAttention(4, 4, key_value_heads, **settings), X, MEMORY)


def listed(kind, **settings):
    """A layer of Keras that takes a list."""
    query, key, value = (np.random.default_rng(i).normal(size=(2, n, 8)) for i, n in enumerate((3, 5, 5)))
    value = value[..., :6]
    return build(kind(**settings), [query, value, key]), (query, key, value)


def lora_layer():
    peer = keras_layer()
    peer.query_dense.enable_lora(2)
    return stir(peer)


@pytest.mark.parametrize("key_value_heads", [1, 2])
@pytest.mark.parametrize("use_bias", [True, False])
def test_grouped_heads_of_keys_and_values_are_taken_over(use_bias, key_value_heads):
    peer = grouped_layer(key_value_heads, use_bias=use_bias)
    layer = from_keras(peer)
    assert layer.key_value_heads == key_value_heads
    for mask in (None, MASK):
        expected = peer(X, MEMORY, attention_mask=None if mask is None else mask[:, 0], return_attention_scores=True)
        assert_close(layer(X, MEMORY, attention_mask=mask), expected, 1e-6)


@pytest.mark.parametrize(
    "make", [lambda: keras.layers.MultiHeadAttention(2, 4, 3), lambda: keras.layers.GroupQueryAttention(4, 4, 2)]
)
@pytest.mark.parametrize("use_bias", [True, False])
def test_self_attention_gets_one_matrix_of_the_three(use_bias, make):
    config = make().get_config() | {"use_bias": use_bias}
    peer = build(type(make()).from_config(config), X, X)
    layer = from_keras(peer, SelfAttention, return_weights=False)
    assert_close(layer(X), peer(X, X), 1e-6)
    with pytest.raises(
        ValueError, match="makes all three from one sequence, found queries of width 8, keys of width 6"
    ):
        from_keras(keras_layer(), SelfAttention)


@pytest.mark.parametrize("kind", [keras.layers.AdditiveAttention, keras.layers.Attention])
def test_layers_without_projections_are_taken_over_and_back(kind):
    peer, (query, key, value) = listed(kind, dropout=0.25)
    wanted = None if kind is keras.layers.AdditiveAttention else MultiHeadAttention
    layer = from_keras(peer, wanted)
    assert layer.mechanism.dropout.rate == 0.25
    context, weights = layer(query, key=key, value=value)
    expected = peer([query, value, key], return_attention_scores=True)
    assert_close((context, weights[:, 0]), expected, 1e-6)
    back = to_keras(layer)
    assert type(back) is kind
    assert_close(back([query, value, key], return_attention_scores=True), expected, 0)
    assert back.get_config() | {"name": peer.name} == peer.get_config()


def test_dot_products_are_taken_over_into_cross_and_self_attention():
    peer = keras.layers.Attention()
    expected = peer([X, X])
    for kind, inputs in ((CrossAttention, (X, X)), (SelfAttention, (X,))):
        assert_close(from_keras(peer, kind, return_weights=False)(*inputs), expected, 1e-6)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (keras_layer, CrossAttention),
        (lambda: keras_layer(use_bias=False, output_shape=5, dropout=0.25, seed=3), MultiHeadAttention),
        (lambda: keras_layer(kernel_regularizer="l2", kernel_initializer="he_normal"), CrossAttention),
        (lambda: keras_layer(dtype="mixed_bfloat16", trainable=False), CrossAttention),
        (lambda: keras_layer(dtype="bfloat16"), CrossAttention),
        (lambda: grouped_layer(2, dropout=0.5), MultiHeadAttention),
        (lambda: grouped_layer(1, use_bias=False), CrossAttention),
        (lambda: build(keras.layers.MultiHeadAttention(2, 4, 3), X, X), SelfAttention),
        (lambda: build(keras.layers.GroupQueryAttention(4, 4, 2), X, X), SelfAttention),
    ],
)
def test_there_and_back_weights_are_the_same_bit_for_bit_and_so_are_the_options(make, kind):
    peer = make()
    back = to_keras(from_keras(peer, kind))
    assert type(back) is type(peer)
    for weight, expected in zip(back.weights, peer.weights, strict=True):
        assert (weight.name, weight.shape, weight.dtype) == (expected.name, expected.shape, expected.dtype)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), keras.ops.convert_to_numpy(expected))
    assert back.get_config() | {"name": peer.name} == peer.get_config()
    assert len(back.trainable_weights) == len(peer.trainable_weights)
    memory = X if kind is SelfAttention else MEMORY
    assert_close(back(X, memory), peer(X, memory), 0)


@pytest.mark.parametrize("output_dim", [None, 5])
def test_layers_of_the_package_give_the_same_in_keras(output_dim):
    value = np.random.default_rng(2).normal(size=(2, 5, 7)).astype("float32")
    layer = MultiHeadAttention(2, 4, value_dim=3, output_dim=output_dim)
    layer(X, key=MEMORY, value=value)
    stir(layer)
    peer = to_keras(layer, name="mine")
    assert peer.name == "mine"
    found = peer(X, value, MEMORY, attention_mask=MASK, return_attention_scores=True)
    assert_close(found, layer(X, key=MEMORY, value=value, attention_mask=MASK), 1e-6)


def test_lora_is_taken_over_as_part_of_the_matrices():
    peer = lora_layer()
    layer = from_keras(peer)
    assert_close(layer(X, MEMORY)[0], peer(X, MEMORY), 1e-6)
    layer.enable_lora(2)
    stir(layer)
    assert_close(to_keras(layer)(X, MEMORY), layer(X, MEMORY)[0], 1e-6)


def quantized_layer():
    peer = keras_layer()
    peer.value_dense.quantize("int8")
    return peer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras.layers.Dense(2), "expected one of Keras' layers MultiHeadAttention, .* found Dense"),
        (lambda: keras.layers.MultiHeadAttention(2, 4), "expected a built layer"),
        (lambda: keras_layer(use_gate=True), "use_gate"),
        (lambda: keras_layer(sliding_window=2), "sliding_window"),
        (lambda: keras_layer(output_shape=(2, 3)), "output_shape of one axis"),
        (lambda: keras_layer(bias_regularizer="l2"), "expected bias_regularizer=None, found {"),
        (lambda: keras_layer(activity_regularizer="l2"), "activity_regularizer"),
        (lambda: keras_layer(kernel_constraint="max_norm"), "kernel_constraint"),
        (lambda: keras_layer(bias_constraint="max_norm"), "bias_constraint"),
        (lambda: grouped_layer(2, use_gate=True), "use_gate=False, found True"),
        (lambda: listed(keras.layers.Attention, use_scale=True)[0], "use_scale=False, found True"),
        (lambda: listed(keras.layers.Attention, score_mode="concat")[0], "score_mode='dot', found 'concat'"),
        (lambda: listed(keras.layers.AdditiveAttention, use_scale=False)[0], "use_scale=True, found False"),
        (quantized_layer, "not quantized, found int8"),
    ],
)
def test_what_has_no_counterpart_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        from_keras(make())


def called(layer):
    layer(X) if isinstance(layer, SelfAttention) else layer(X, key=X, value=X)
    return layer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras_layer(), "expected an attention layer of this package, found MultiHeadAttention"),
        (lambda: SelfAttention(2, 4), "expected a built layer"),
        (
            lambda: called(SelfAttention(2, 4, score="cosine")),
            "score: Keras' layers have 'scaled_dot' only, .*'cosine'",
        ),
        (lambda: called(SelfAttention(2, 4, mechanism="sink")), "mechanism: .*'softmax' only, found 'sink'"),
        (lambda: called(SelfAttention(2, 4, positions="alibi")), "positions: .*None only, found 'alibi'"),
        (lambda: called(SelfAttention(2, 4, value_projection=False)), "projection: .*False only, found True"),
        (lambda: called(MultiHeadAttention(2, 4, projection=False)), "num_heads: .*1 only, found 2"),
        (
            lambda: called(MultiHeadAttention(1, 8, projection=False)),
            "score: .*'dot' or 'additive' only, found 'scaled_dot'",
        ),
        (lambda: called(AdditiveAttention(8)), "projection: .*False only, found True"),
        (lambda: called(AdditiveAttention(8, use_bias=True, projection=False)), "use_bias: .*False only, found True"),
        (lambda: called(SelfAttention(2, 4, 3, key_value_heads=1)), "value_dim: .*4 only, found 3"),
        (lambda: called(SelfAttention(2, 4, output_dim=5, key_value_heads=1)), "output_dim: .*8 only, found 5"),
    ],
)
def test_what_keras_lacks_is_refused_by_the_name_of_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        to_keras(make())


def test_additive_attention_of_keras_becomes_nothing_else():
    with pytest.raises(ValueError, match="kind: Keras' AdditiveAttention becomes an AdditiveAttention, found Cross"):
        from_keras(listed(keras.layers.AdditiveAttention)[0], CrossAttention)

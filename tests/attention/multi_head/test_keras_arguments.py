"""Initializers, the regularizer and the seed of attention layers, as `keras.layers.MultiHeadAttention` takes them."""

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention, from_keras
from qkv.attention.mechanisms import LSH, MECHANISM_CLASSES, Linformer
from qkv.attention.scores import SCORE_CLASSES
from tests.support.layer_contract import B, S, T

X = np.random.default_rng(0).normal(size=(B, T, 8)).astype("float32")
MEMORY = np.random.default_rng(1).normal(size=(B, S, 8)).astype("float32")
MECHANISM_SETTINGS = {"linformer": Linformer(projected_length=3, max_length=8), "lsh": LSH(buckets=2, chunk_length=2)}
NOTHING_DROPPED = {"blockwise": {"dropout": 0.0}}
SEEDED = [
    *(
        pytest.param(CrossAttention, {"num_heads": 2, "key_dim": 4, "score": name}, id=f"score {name}")
        for name in SCORE_CLASSES
    ),
    *(
        pytest.param(
            SelfAttention if MECHANISM_CLASSES[name].shares_query_and_key else CrossAttention,
            {"num_heads": 2, "key_dim": 4, "mechanism": MECHANISM_SETTINGS.get(name, name)}
            | NOTHING_DROPPED.get(name, {}),
            id=f"mechanism {name}",
        )
        for name in MECHANISM_CLASSES
    ),
    pytest.param(AdditiveAttention, {"units": 4}, id="additive"),
]


def attend(layer):
    """What a layer returns in training, and its weights after the first call."""
    inputs = {"x": X} if isinstance(layer, SelfAttention) else {"x": X, "memory": MEMORY}
    if isinstance(layer, AdditiveAttention):
        inputs = {"query": X, "key": MEMORY, "value": MEMORY}
    context, _ = layer(**inputs, training=True)
    return [context.numpy(), *layer.get_weights()]


@pytest.mark.parametrize(("kind", "settings"), SEEDED)
def test_a_seed_decides_every_weight_and_what_dropout_drops(kind, settings):
    settings = {"dropout": 0.5, **settings}
    one, same, other = (attend(kind(**settings, seed=seed)) for seed in (7, 7, 8))
    np.testing.assert_equal(same, one)
    drawn = [i for i, x in enumerate(one) if len(np.unique(x)) > 2]
    assert drawn
    for i in drawn:
        assert not np.array_equal(one[i], other[i])


def test_no_two_parts_of_a_seeded_layer_draw_the_same():
    layer = MultiHeadAttention(2, 4, seed=7)
    layer.build((B, T, 8), key_shape=(B, S, 8), value_shape=(B, S, 8))
    kernels = [weight.numpy() for weight in layer.weights if weight.name == "kernel"]
    assert len(kernels) == 4
    assert len({kernel.tobytes() for kernel in kernels}) == 4


def test_an_initializer_keeps_its_own_seed():
    one, other = (
        SelfAttention(2, 4, kernel_initializer=keras.initializers.HeNormal(seed=5), seed=seed) for seed in (7, 8)
    )
    np.testing.assert_equal(attend(one), attend(other))


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_initializers_fill_all_projections(kind):
    layer = kind(2, 4, kernel_initializer="ones", bias_initializer=keras.initializers.Constant(2.0))
    attend(layer)
    for weight in layer.weights:
        assert (weight.numpy() == {"kernel": 1.0, "bias": 2.0}[weight.name]).all()


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_the_regularizer_sums_over_all_matrices_and_no_bias(kind):
    layer = kind(2, 4, kernel_regularizer=keras.regularizers.L2(0.1), bias_initializer="ones")
    attend(layer)
    expected = sum(0.1 * np.sum(weight.numpy() ** 2) for weight in layer.weights if weight.name == "kernel")
    np.testing.assert_allclose(sum(layer.losses), expected, rtol=1e-6)


def test_without_a_seed_layers_differ_but_follow_the_seed_of_the_program():
    def drawn():
        keras.utils.set_random_seed(3)
        return [attend(SelfAttention(2, 4)) for _ in range(2)]

    one, other = drawn(), drawn()
    assert not np.array_equal(one[0][1], one[1][1])
    np.testing.assert_array_equal(one[1][1], other[1][1])


def test_what_keras_own_layer_was_given_goes_over_with_its_weights():
    peer = keras.layers.MultiHeadAttention(2, 4, kernel_regularizer="l2", kernel_initializer="he_normal", seed=3)
    peer(X, MEMORY)
    layer = from_keras(peer)
    np.testing.assert_allclose(sum(layer.losses), sum(peer.losses), rtol=1e-5)
    assert layer.get_config()["kernel_initializer"]["class_name"] == "HeNormal"
    assert layer.get_config()["seed"] == 3

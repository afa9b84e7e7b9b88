"""Dropout by random bytes: how much it drops, what it leaves, and that gradients take the same way."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.keras_layers import Dropout


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.25, 0.5, 0.999])
def test_the_share_that_is_dropped_is_the_nearest_256th_and_the_mean_stays(rate):
    x = np.ones((50, 101, 41), "float32")
    y = Dropout(rate, seed=1)(x, training=True).numpy()
    share = np.clip(np.round(256 * rate), 1, 255) / 256
    deviation = (share * (1 - share) / x.size) ** 0.5
    assert abs((y == 0).mean() - share) < 5 * deviation
    np.testing.assert_allclose(y[y != 0], 1 / (1 - share), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (2, 5, 7), (2, 3, 4, 4)])
def test_inputs_of_any_shape_are_accepted_static_or_not(shape):
    layer = Dropout(0.5)
    free = tf.function(lambda x: layer(x, training=True), input_signature=[tf.TensorSpec([None] * len(shape))])
    values = np.unique(np.concatenate([free(tf.ones(shape)).numpy().ravel() for _ in range(20)]))
    assert values.tolist() == [0, 2]
    assert free(tf.ones(shape)).shape == shape


def test_neighbouring_numbers_are_dropped_independently():
    dropped = Dropout(0.5, seed=3)(np.ones((400, 400), "float32"), training=True).numpy() == 0
    for axis in (0, 1):
        for distance in (1, 2, 3, 4, 8):
            same = dropped == np.roll(dropped, distance, axis)
            assert abs(same.mean() - 0.5) < 5 * 0.5 / 400


def test_gradients_pass_where_numbers_were_kept():
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = Dropout(0.3)(x, training=True)
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)


def test_a_seed_repeats_the_draws_and_each_call_draws_anew():
    x = np.ones((30, 30), "float32")
    first, second = Dropout(0.5, seed=7), Dropout(0.5, seed=7)
    results = [first(x, training=True).numpy() for _ in range(2)]
    np.testing.assert_array_equal(results, [second(x, training=True).numpy() for _ in range(2)])
    assert (results[0] != results[1]).any()


@pytest.mark.parametrize(
    ("rate", "training", "expected"), [(0.0, True, 1), (0.5, False, 1), (0.0, False, 1), (1.0, True, 0)]
)
def test_rate_0_keeps_everything_and_rate_1_drops_everything(rate, training, expected):
    assert (Dropout(rate)(np.ones((4, 9), "float32"), training=training).numpy() == expected).all()


@pytest.mark.parametrize("count", [1, 3, 8, 21, 4003])
def test_words_of_64_bits_have_the_bytes_of_words_of_32_bits(count):
    """So that a GPU keeps them, and every seed draws what it has always drawn."""
    few, many = (
        tf.reshape(tf.bitcast(words, tf.uint8), (-1,))[:count].numpy()
        for words in (Dropout(0.5, seed=11)._words(count), Dropout(0.5, seed=11)._words_of_64_bits(count))
    )
    np.testing.assert_array_equal(many, few)


def test_half_precision_inputs_give_half_precision_outputs():
    assert Dropout(0.5, dtype="mixed_bfloat16")(tf.ones((2, 3)), training=True).dtype == tf.bfloat16


def test_dropout_made_from_its_config_has_the_same_config():
    layer = Dropout.from_config(Dropout(0.2, seed=5, name="mine").get_config())
    assert (layer.rate, layer.seed, layer.name) == (0.2, 5, "mine")

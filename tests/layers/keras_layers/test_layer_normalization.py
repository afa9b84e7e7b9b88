"""Layer normalisation with a gradient of its own is Keras', in value and gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.keras_layers import LayerNormalization


def value_and_gradients(layer, x, upstream):
    layer.build(x.shape)
    generator = np.random.default_rng(5)
    layer.set_weights([generator.normal(size=weight.shape) for weight in layer.get_weights()])
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    return y, *tape.gradient(y, [x, *layer.trainable_variables], upstream)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 8), (2, 3, 5, 7), (1, 1, 5)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_value_and_gradients_equal_those_of_keras_layer_normalization(shape, scale):
    generator = np.random.default_rng(0)
    x, upstream = (generator.normal(size=shape).astype("float32") for _ in range(2))
    x = (x + 1) * np.float32(scale)
    ours = value_and_gradients(LayerNormalization(epsilon=1e-5), x, upstream)
    theirs = value_and_gradients(keras.layers.LayerNormalization(epsilon=1e-5), x, upstream)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5 * float(np.abs(other).max()))


def test_the_gradient_equals_finite_differences():
    generator = np.random.default_rng(1)
    x, upstream = generator.normal(size=(2, 2, 5)), generator.normal(size=(2, 2, 5))
    layer = LayerNormalization(epsilon=1e-5, dtype="float64")
    _, gradient, *_ = value_and_gradients(layer, x, upstream)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        slope = np.sum((layer(x + step) - layer(x - step)) * upstream) / 2e-6
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-4, atol=1e-6)


def test_constant_rows_have_finite_gradients():
    x = np.full((1, 2, 4), 3, "float32")
    y, *gradients = value_and_gradients(LayerNormalization(epsilon=1e-5), x, np.ones_like(x))
    assert all(np.isfinite(gradient).all() for gradient in (y, *gradients))


def test_half_precision_is_summed_in_float32():
    x = np.random.default_rng(0).normal(size=(2, 3, 256)).astype("float32") + 100
    layer = LayerNormalization(epsilon=1e-5, dtype="mixed_bfloat16")
    y = layer(tf.cast(x, tf.bfloat16))
    assert y.dtype == tf.bfloat16
    expected = keras.layers.LayerNormalization(epsilon=1e-5)(tf.cast(tf.cast(x, tf.bfloat16), tf.float32))
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, rtol=2**-7, atol=1e-3)

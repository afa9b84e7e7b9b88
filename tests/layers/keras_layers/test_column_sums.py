"""The sums that a GPU takes as products are those of a processor, and so are the gradients made of them."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.layers import keras_layers
from qkv.layers.keras_layers import Dense, LayerNormalization, column_sums


@pytest.fixture(params=[False, True])
def on_gpu(request, monkeypatch):
    """Whether layers compute as on a GPU."""
    monkeypatch.setattr(keras_layers, "_is_on_gpu", lambda: request.param)


@pytest.mark.parametrize("shape", [(7, 4), (2, 3, 5), (0, 4), (3,)])
def test_all_axes_but_the_last_are_summed(shape, on_gpu):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    np.testing.assert_allclose(column_sums(tf.constant(x)), x.reshape(-1, shape[-1]).sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [lambda: Dense(3, "relu"), lambda: Dense(3), lambda: Dense(3, use_bias=False), LayerNormalization],
    ids=["relu", "linear", "without_bias", "normalization"],
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_values_and_gradients_are_those_of_a_processor(make, dtype, monkeypatch):
    generator = np.random.default_rng(1)
    x = tf.constant(generator.normal(size=(2, 5, 4)).astype("float32"))
    layer = make()
    layer.dtype_policy = dtype
    layer.build(x.shape)
    layer.set_weights([generator.normal(size=weight.shape) for weight in layer.get_weights()])

    @tf.function
    def values_and_gradients():
        with tf.GradientTape() as tape:
            y = layer(x)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
        return y, *tape.gradient(loss, layer.trainable_variables)

    expected = values_and_gradients()
    monkeypatch.setattr(keras_layers, "_is_on_gpu", lambda: True)
    rounding = 1e-5 if dtype == "float32" else 2**-6
    for one, other in zip(tf.function(values_and_gradients.python_function)(), expected, strict=True):
        assert one.dtype == other.dtype
        one, other = (tf.cast(x, tf.float32) for x in (one, other))
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding * float(tf.reduce_max(tf.abs(other))))

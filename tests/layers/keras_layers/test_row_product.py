"""A product over the last axis of arrays of any number of axes."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.keras_layers import row_product


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 3, 4, 5), (0, 3, 5)])
def test_the_product_is_that_over_the_last_axis_static_or_not(shape):
    generator = np.random.default_rng(0)
    x, matrix = generator.normal(size=shape).astype("float32"), generator.normal(size=(5, 7)).astype("float32")
    free = tf.function(
        row_product, input_signature=[tf.TensorSpec([*[None] * (len(shape) - 1), 5]), tf.TensorSpec((5, 7))]
    )
    for product in (row_product(tf.constant(x), matrix), free(x, matrix)):
        np.testing.assert_allclose(product, x @ matrix, rtol=1e-5, atol=1e-6)

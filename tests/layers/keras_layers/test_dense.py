"""A product over the last axis is Keras', whatever the other axes."""

import keras
import numpy as np
import pytest

from qkv.layers.keras_layers import Dense


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 5, 3, 4)])
@pytest.mark.parametrize("arguments", [{}, {"use_bias": False}, {"activation": "relu"}])
def test_outputs_equal_those_of_keras_dense(shape, arguments):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    ours, theirs = Dense(6, **arguments), keras.layers.Dense(6, **arguments)
    expected = theirs(x)
    ours.build(shape)
    theirs.set_weights([np.random.default_rng(1).normal(size=w.shape) for w in theirs.get_weights()])
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-5, atol=1e-6)
    assert ours(x).shape == expected.shape == ours.compute_output_shape(shape)

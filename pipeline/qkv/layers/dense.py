"""A matrix product over the last axis, and the bias in the same operation."""

import keras
from keras import ops

from .dynamic_shape import dynamic_shape


@keras.saving.register_keras_serializable(package="qkv")
class Dense(keras.layers.Dense):
    """`activation(x W + b)` over the last axis, as `keras.layers.Dense`.

    TensorFlow fuses product, bias and activation for inputs of two axes, so all but the last axis are flattened first.

    Example:
        >>> Dense(3)(keras.ops.ones((2, 5, 4))).shape
        TensorShape([2, 5, 3])
    """

    def call(self, inputs, training=None):
        shape = dynamic_shape(inputs)
        rows = super().call(ops.reshape(inputs, (-1, shape[-1])), training=training)
        return ops.reshape(rows, (*shape[:-1], self.units))

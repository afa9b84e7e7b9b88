"""Dropout from cheap random bits."""

import math

import keras
from keras import ops

from .dynamic_shape import dynamic_shape


@keras.saving.register_keras_serializable(package="qkv")
class Dropout(keras.layers.Dropout):
    """Sets numbers to zero at random in training and scales up the others (Srivastava et al. 2014).

    Unlike `keras.layers.Dropout`, which draws a float for each number, this layer draws one random byte: drawing is
    most of the cost of dropout on a CPU. So the share that is dropped is the multiple of 1/256 nearest to `rate`
    (0.1016 for 0.1), and the other numbers are scaled accordingly.

    Args:
        rate: share of the numbers set to zero, within [0, 1].
        seed: the seed of the random numbers; drawn at random if not given.

    Example:
        >>> layer = Dropout(0.5)
        >>> sorted(set(layer(keras.ops.ones(1000), training=True).numpy().tolist()))
        [0.0, 2.0]
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(rate, seed=seed, **kwargs)
        self.dropped_bytes = min(max(round(256 * rate), 1), 255) if 0 < rate < 1 else round(256 * rate)

    def call(self, inputs, training=False):
        if not training or not self.dropped_bytes:
            return inputs
        if self.dropped_bytes == 256:
            return ops.zeros_like(inputs)
        kept = ops.cast(self._bytes(dynamic_shape(inputs)) >= self.dropped_bytes, inputs.dtype)
        return inputs * (kept * (256 / (256 - self.dropped_bytes)))  # one product with what has a gradient

    def _bytes(self, shape):
        """Returns random numbers from 0 to 255."""
        count = math.prod(shape)
        words = self._words_of_64_bits(count) if keras.backend.backend() == "tensorflow" else self._words(count)
        numbers = ops.view(words, "uint8")
        if not (isinstance(shape[-1], int) and shape[-1] % 8 == 0):  # as many numbers as there are in whole words
            numbers = ops.reshape(numbers, (-1,))[:count]
        return ops.reshape(numbers, shape)

    def _words(self, count):
        return keras.random.randint(((count + 3) // 4, 1), -(2**31), 2**31 - 1, seed=self.seed_generator)

    def _words_of_64_bits(self, count):
        """Returns the same bytes, two words in one: TensorFlow reshapes 32-bit integers in the host's memory, so that
        every mask would travel from a GPU and back."""
        shape = (count + 7) // 8, 1
        words = keras.random.randint(shape, -(2**63), 2**63 - 1, dtype="int64", seed=self.seed_generator)
        return ops.bitwise_xor(words, 2**31)  # the least number is added to either word: it turns the highest bit

    def get_config(self):
        config = super().get_config()
        del config["noise_shape"]
        return config

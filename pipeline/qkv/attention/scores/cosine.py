"""Scores by the angle between query and key alone."""

import math

import keras
from keras import ops

from .score import Score


@keras.saving.register_keras_serializable(package="qkv")
class Cosine(Score):
    """`e = g * cos(q, k)` with a learnt positive scale g for each head (Graves et al. 2014, equation 5).

    A cosine lies within -1 and 1, too narrow a range for a sharp softmax: `g = exp(s)` starts at `initial_scale`.

    Args:
        initial_scale: g before training.

    Call arguments and returns: as in `Score`.

    Example:
        >>> query, key = keras.ops.array([[[[3.0, 4.0]]]]), keras.ops.array([[[[6.0, 8.0], [-4.0, 3.0]]]])
        >>> Cosine()(query, key)[0, 0].numpy().round(3).tolist()
        [[10.0, 0.0]]
    """

    projected = by_angle = True

    def __init__(self, initial_scale=10.0, **kwargs):
        super().__init__(**kwargs)
        if not initial_scale > 0:
            raise ValueError(f"initial_scale: expected a number above 0, found {initial_scale}")
        self.initial_scale = initial_scale

    def build(self, query_shape, key_shape):
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=(query_shape[1], 1, 1),
            initializer=keras.initializers.Constant(math.log(self.initial_scale)),
        )

    def prepare(self, query, key):
        query, key = (ops.normalize(ops.cast(side, "float32"), axis=-1, epsilon=1e-6) for side in (query, key))
        return ops.exp(ops.cast(self.log_scale, "float32")) * query, key

    def get_config(self):
        return {**super().get_config(), "initial_scale": self.initial_scale}


COSINES = {"cosine": Cosine}

"""Gradient times input: which source tokens a prediction would feel a change of (Ding et al. 2019, section 3).

Letters: B batch, T target positions, S source positions, D model width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from .forced import forced_decode, shares


def gradient_times_input(model, source, target_input, target_output):
    """`|x_s . d log p(y_t) / d x_s|` for the embedding x_s of each source token, as shares of its row.

    It has neither layers nor heads, as it looks through the whole model. Each target position takes a backward pass.

    Args:
        model: anything with the surface of `pipeline.model.interface`.
        source: int `(B, S)`.
        target_input: int `(B, T)`, from BOS on.
        target_output: int `(B, T)`, up to EOS.

    Returns:
        float32 `(B, 1, 1, T, S)`; padding of the source has no share.
    """
    with tf.GradientTape(persistent=True) as tape, outputs_of(model.source_embedding) as embedded:
        memory = model.encode(source, training=False)
        x = embedded[0]
        likelihoods = forced_decode(model, memory, target_input, target_output).log_probabilities
    length = tf.shape(target_input)[1]

    def of_position(t):
        chosen = tf.one_hot(tf.fill(tf.shape(target_input)[:1], t), length)
        gradient = tape.gradient(likelihoods, x, output_gradients=chosen)
        return tf.abs(tf.reduce_sum(tf.cast(gradient * x, tf.float32), -1))

    shape = tf.TensorSpec([None, None], tf.float32)
    saliency = tf.map_fn(of_position, tf.range(length), fn_output_signature=shape, parallel_iterations=1)
    return shares(tf.transpose(saliency, (1, 0, 2))[:, None, None] * tf.cast(memory.mask[:, None], tf.float32))


@contextmanager
def outputs_of(layer: keras.layers.Layer) -> Iterator[list[Any]]:
    """Within the block, whatever the layer returns is kept in a list."""
    kept: list[Any] = []
    usual = layer.call

    def call(*arguments, **named):
        kept.append(usual(*arguments, **named))
        return kept[-1]

    layer.call = call
    try:
        yield kept
    finally:
        del layer.call

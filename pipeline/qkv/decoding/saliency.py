"""Gradient times input: how sensitive each prediction is to each source token (Ding et al. 2019, section 3).

Letters: B batch, T target positions, S source positions, D model width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from .forced import forced_decode, normalize_rows


def gradient_times_input(model, source, target_input, target_output):
    """Computes `|x_s . d log p(y_t) / d x_s|` for the embedding x_s of each source token, divided by the sum of row t.

    The result has one layer and one head, because the gradient passes through the whole model. Each target position
    takes a backward pass.

    Args:
        model: any `TranslationModel`.
        source: int `(B, S)`.
        target_input: int `(B, T)`, from BOS on.
        target_output: int `(B, T)`, up to EOS.

    Returns:
        float32 `(B, 1, 1, T, S)`; 0 for padding of the source.
    """
    with tf.GradientTape(persistent=True) as tape, record_outputs(model.source_embedding) as outputs:
        memory = model.encode(source, training=False)
        x = outputs[0]
        likelihoods = forced_decode(model, memory, target_input, target_output).log_probabilities
    length = tf.shape(target_input)[1]

    def saliency_of_position(t):
        chosen = tf.one_hot(tf.fill(tf.shape(target_input)[:1], t), length)
        gradient = tape.gradient(likelihoods, x, output_gradients=chosen)
        return tf.abs(tf.reduce_sum(tf.cast(gradient * x, tf.float32), -1))

    shape = tf.TensorSpec([None, None], tf.float32)
    saliency = tf.map_fn(saliency_of_position, tf.range(length), fn_output_signature=shape, parallel_iterations=1)
    return normalize_rows(tf.transpose(saliency, (1, 0, 2))[:, None, None] * tf.cast(memory.mask[:, None], tf.float32))


@contextmanager
def record_outputs(layer: keras.layers.Layer) -> Iterator[list[Any]]:
    """Records what a layer returns while the context is open."""
    outputs: list[Any] = []
    original_call = layer.call

    def call(*arguments, **named):
        outputs.append(original_call(*arguments, **named))
        return outputs[-1]

    layer.call = call
    try:
        yield outputs
    finally:
        del layer.call

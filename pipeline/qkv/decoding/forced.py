"""The teacher-forced pass over given targets: every token's probability, every layer's and head's attention, and how
sensitive each prediction is to each source token.

Letters: B batch, H heads, T target positions, U of them whose output tokens are given, S source positions, D model
width.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from ..config.choices.inspection import SITES
from ..layers.keras_layers import dynamic_shape
from ..layers.tap import tapped
from ..runtime.graphs import ModelGraph


class TeacherForced(NamedTuple):
    """The result of a teacher-forced pass.

    - log_probabilities: float32 `(B, U)`, natural logarithms, of each output token given the source and the tokens
      before it.
    - likeliest: int32 `(B, U)`, the token to which the model gives the highest probability there.
    - attention: site -> float32 `(B, layers, H, queries, keys)`.
    - sinks: site -> float32 `(B, layers, H, queries)`, the share of each row that went to no key; only for
      sites whose mechanism has a sink.
    """

    log_probabilities: Any
    likeliest: Any
    attention: dict[str, Any]
    sinks: dict[str, Any]


def forced_pass(model, source, target_input, target_output, sites=()) -> TeacherForced:
    """Reads source and target once, without dropout.

    Args:
        model: any `TranslationModel`.
        source: int `(B, S)`.
        target_input: int `(B, T)`, from BOS on.
        target_output: int `(B, U)`, up to EOS. Pass no columns where only attention is wanted: the logits of U
            positions cost as much as one or two layers.
        sites: which attention to return, among those `config.choices.inspection.SITES` that a forced pass gives.
    """
    return forced_decode(model, model.encode(source, training=False), target_input, target_output, sites)


def forced_decode(model, memory, target_input, target_output, sites=()) -> TeacherForced:
    """Runs the second half of `forced_pass`: reads the target, given the memory of the source."""
    output = model.decode(target_input, memory, training=False)
    given = dynamic_shape(target_output)[1]
    states = keras.tree.map_structure(lambda x: x[:, :given], output.states)  # an ensemble has one for each member
    scores = ops.log_softmax(model.output_embedding.logits(states))
    layers = {"cross": output.cross, "encoder": memory.self_attention, "decoder": output.decoder_self}
    if "norms" in sites:
        norms = model.value_norms(memory)  # empty where the architecture has none
        layers["norms"] = tuple(
            normalize_rows(x * ops.expand_dims(y, 2)) for x, y in zip(output.cross, norms, strict=False)
        )
    batch, targets = dynamic_shape(target_input)
    lengths = {"target": targets, "source": dynamic_shape(memory.mask)[-1]}

    def stack(site):
        if layers[site]:
            return ops.stack(layers[site], axis=1)
        # Without such attention an architecture has 0 layers of it.
        return ops.zeros((batch, 0, 1, *(lengths[axis] for axis in SITES[site].axes)))

    found = ops.squeeze(ops.take_along_axis(scores, ops.expand_dims(target_output, -1), axis=-1), -1)
    likeliest = ops.cast(ops.argmax(scores, axis=-1), "int32")
    sinks = model.sinks(memory, output).items()
    sinks = {site: ops.stack(shares, axis=1) for site, shares in sinks if site in sites and shares}
    return TeacherForced(found, likeliest, {site: stack(site) for site in sites}, sinks)


def normalize_rows(x):
    """Divides rows by their sum; rows of zeros stay zero."""
    return x / ops.maximum(ops.sum(x, axis=-1, keepdims=True), 1e-9)


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
    vectors = []

    def keep_vectors(layer, part, value, **inputs):
        if part == "vectors":
            vectors.append(value)
        return value

    with tf.GradientTape(persistent=True) as tape:
        with tapped(keep_vectors):
            memory = model.encode(source, training=False)
        (x,) = vectors
        likelihoods = forced_decode(model, memory, target_input, target_output).log_probabilities
    length = tf.shape(target_input)[1]

    def saliency_of_position(t):
        chosen = tf.one_hot(tf.fill(tf.shape(target_input)[:1], t), length)
        gradient = tape.gradient(likelihoods, x, output_gradients=chosen)
        return tf.abs(tf.reduce_sum(tf.cast(gradient * x, tf.float32), -1))

    shape = tf.TensorSpec([None, None], tf.float32)
    saliency = tf.map_fn(saliency_of_position, tf.range(length), fn_output_signature=shape, parallel_iterations=1)
    return normalize_rows(tf.transpose(saliency, (1, 0, 2))[:, None, None] * tf.cast(memory.mask[:, None], tf.float32))


ForcedGraph = Callable[..., TeacherForced]
"""`(source, target_input, target_output) -> TeacherForced`; takes int32 `(B, S)`, `(B, T)` and `(B, T)`."""


def make_forced_graph(model: keras.Model, sites: Sequence[str] = ()) -> ForcedGraph:
    """Makes a `ModelGraph` of `forced_pass` for any `TranslationModel` and any of `config.choices.inspection.SITES`."""

    def read(source, target_input, target_output):
        batch = source, target_input, target_output
        forced = forced_pass(model, *batch, [site for site in sites if site != "gradients"])
        if "gradients" in sites:
            forced.attention["gradients"] = gradient_times_input(model, *batch)
        return forced

    return ModelGraph(model, read, (tf.TensorSpec([None, None], tf.int32),) * 3)

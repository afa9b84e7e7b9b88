"""The teacher-forced pass over pairs of source and target, and the gradients of its predictions.

The pass returns each token's log-probability and the attention of each layer and head. `gradient_times_input` returns
the influence of each source token on each prediction.

Letters: B batch, H heads, T target positions, U target positions with an output token, S source positions.
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

    - log_probabilities: the natural logarithm of the probability of each output token, given the source and the tokens
      before it, float32 `(B, U)`.
    - likeliest: the token with the highest probability at each position, int32 `(B, U)`.
    - attention: site -> weights, float32 `(B, layers, H, queries, keys)`.
    - sinks: site -> the weight that each query gives to the learnt sink instead of a key, float32 `(B, layers, H,
      queries)`. A site is missing if its mechanism has no sink.
    """

    log_probabilities: Any
    likeliest: Any
    attention: dict[str, Any]
    sinks: dict[str, Any]


def forced_pass(model, source, target_input, target_output, sites=()) -> TeacherForced:
    """Returns the result of a teacher-forced pass: encodes the source and decodes the target once, without dropout.

    Args:
        model: any `TranslationModel`.
        source: the tokens of the sources, int `(B, S)`.
        target_input: the input tokens of the decoder, from BOS on, int `(B, T)`.
        target_output: the tokens to predict, up to EOS, int `(B, U)` with U at most T. If only attention is needed,
            pass U = 0: the logits of U positions cost as much as one or two layers.
        sites: the attention to return, any keys of `config.choices.inspection.SITES` but `gradients`.
    """
    return forced_decode(model, model.encode(source, training=False), target_input, target_output, sites)


def forced_decode(model, memory, target_input, target_output, sites=()) -> TeacherForced:
    """Returns the result of `forced_pass`, from `memory`, the result of `model.encode` for the sources."""
    output = model.decode(target_input, memory, training=False)
    outputs = dynamic_shape(target_output)[1]
    states = keras.tree.map_structure(lambda x: x[:, :outputs], output.states)  # an ensemble has one for each member
    scores = ops.log_softmax(model.output_embedding.logits(states))
    layers = {"cross": output.cross, "encoder": memory.self_attention, "decoder": output.decoder_self}
    if "norms" in sites:
        norms = model.value_norms(memory)  # empty if the architecture has none
        layers["norms"] = tuple(
            normalize_rows(x * ops.expand_dims(y, 2)) for x, y in zip(output.cross, norms, strict=False)
        )
    batch, targets = dynamic_shape(target_input)
    lengths = {"target": targets, "source": dynamic_shape(memory.mask)[-1]}

    def stack(site):
        if layers[site]:
            return ops.stack(layers[site], axis=1)
        # An architecture without this attention has 0 layers of it.
        return ops.zeros((batch, 0, 1, *(lengths[axis] for axis in SITES[site].axes)))

    log_probabilities = ops.squeeze(ops.take_along_axis(scores, ops.expand_dims(target_output, -1), axis=-1), -1)
    likeliest = ops.cast(ops.argmax(scores, axis=-1), "int32")
    sinks = model.sinks(memory, output).items()
    sinks = {site: ops.stack(shares, axis=1) for site, shares in sinks if site in sites and shares}
    return TeacherForced(log_probabilities, likeliest, {site: stack(site) for site in sites}, sinks)


def normalize_rows(x):
    """Divides each row of x, `(..., S)`, by its sum. x is not negative, and rows of zeros stay zero."""
    return x / ops.maximum(ops.sum(x, axis=-1, keepdims=True), 1e-9)


def gradient_times_input(model, source, target_input, target_output):
    """Computes gradient times input: the influence of each source token s on each predicted target token t.

    The influence is `|x_s . d log p(y_t) / d x_s|` for the embedding x_s of the source token, divided by its sum over
    s. There is a backward pass for each target position.

    Args:
        model: any `TranslationModel`.
        source: the tokens of the sources, int `(B, S)`.
        target_input: the input tokens of the decoder, from BOS on, int `(B, T)`.
        target_output: the tokens to predict, up to EOS, int `(B, T)`.

    Returns:
        float32 `(B, 1, 1, T, S)`, 0 for padding of the source. There is one layer and one head, because the gradient
        passes through the whole model.
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
        at_position = tf.one_hot(tf.fill(tf.shape(target_input)[:1], t), length)
        gradient = tape.gradient(likelihoods, x, output_gradients=at_position)
        return tf.abs(tf.reduce_sum(tf.cast(gradient * x, tf.float32), -1))

    shape = tf.TensorSpec([None, None], tf.float32)
    saliency = tf.map_fn(saliency_of_position, tf.range(length), fn_output_signature=shape, parallel_iterations=1)
    return normalize_rows(tf.transpose(saliency, (1, 0, 2))[:, None, None] * tf.cast(memory.mask[:, None], tf.float32))


ForcedGraph = Callable[..., TeacherForced]
"""A graph `(source, target_input, target_output) -> TeacherForced`. Takes int32 `(B, S)`, `(B, T)` and `(B, U)`."""


def make_forced_graph(model: keras.Model, sites: Sequence[str] = ()) -> ForcedGraph:
    """Returns a graph of the teacher-forced pass, a `runtime.graphs.ModelGraph`.

    Args:
        model: any `TranslationModel`.
        sites: the attention to return, any keys of `config.choices.inspection.SITES`. With `gradients` the graph needs
            U = T.
    """

    def read(source, target_input, target_output):
        batch = source, target_input, target_output
        forced = forced_pass(model, *batch, [site for site in sites if site != "gradients"])
        if "gradients" in sites:
            forced.attention["gradients"] = gradient_times_input(model, *batch)
        return forced

    return ModelGraph(model, read, (tf.TensorSpec([None, None], tf.int32),) * 3)

"""Gradient times input, against what happens in fact when a source token's vector is made a little longer."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.decoding.forced import forced_decode, gradient_times_input
from qkv.text.tokens.special_tokens import EOS
from tests.support.minutes import by_hand
from tests.support.tiny_models import SOURCE, TARGET, model_of

pytestmark = pytest.mark.minutes

OUTPUT = np.concatenate([TARGET[:, 1:], np.full((3, 1), EOS, "int32")], 1)
NAMES = ["transformer", "recurrent", "decoder-only"]


def lengthened(model, position, factor):
    """Log-probabilities of the targets when the vectors of one source position are `factor` times as long."""
    layer, calls = model.source_embedding, []
    usual = layer.call

    def call(ids):
        calls.append(1)
        scale = np.ones((1, ids.shape[1], 1), "float32")
        if len(calls) == 1:  # the source; the target may share the table
            scale[:, position] = factor
        return usual(ids) * scale

    layer.call = call
    try:
        memory = model.encode(SOURCE, training=False)
        return forced_decode(model, memory, TARGET, OUTPUT).log_probabilities.numpy().astype("float64")
    finally:
        del layer.call


@pytest.mark.parametrize("name", NAMES)
def test_saliency_equals_finite_differences(name):
    model = model_of(name)
    saliency = gradient_times_input(model, SOURCE, TARGET, OUTPUT).numpy()
    assert saliency.shape == (3, 1, 1, 5, 7)
    step = 2e-3  # a small one, since ReLUs have corners
    rises = [(lengthened(model, s, 1 + step) - lengthened(model, s, 1 - step)) / (2 * step) for s in range(7)]
    expected = np.abs(np.stack(rises, -1)) * (SOURCE != 0)[:, None]
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(saliency[:, 0, 0], expected, atol=1e-2)
    assert saliency.std() > 0.02


@pytest.mark.parametrize("name", ["transformer", pytest.param("recurrent", marks=by_hand)])
def test_saliency_in_a_graph_is_the_same_and_leaves_the_layer_unchanged(name):
    model = model_of(name)
    expected = gradient_times_input(model, SOURCE, TARGET, OUTPUT)
    ids = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(lambda *batch: gradient_times_input(model, *batch), input_signature=[ids] * 3, autograph=False)
    np.testing.assert_allclose(graph(SOURCE, TARGET, OUTPUT), expected, atol=1e-5)
    assert "call" not in vars(model.source_embedding)

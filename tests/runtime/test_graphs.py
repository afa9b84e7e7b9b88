"""Graphs follow their model, and leave nothing behind when they are forgotten."""

import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from qkv.runtime.graphs import MOST_GRAPHS, GraphCache, LastUsed, ModelGraph, forget_gradients

X = np.array([[1.0, 2.0]], "float32")
SIGNATURE = (tf.TensorSpec([None, 2], tf.float32),)


@tf.custom_gradient
def doubled(x):
    return 2 * x, lambda upstream: 2 * upstream


@pytest.fixture
def model():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    return layer


@pytest.fixture
def traced(model):
    """A graph of the layer, whose loop has a custom gradient, and the list of its traces."""
    traces = []

    def read(x):
        traces.append(x)
        return model(tf.while_loop(lambda i, y: i < 1, lambda i, y: (i + 1, doubled(y)), (0, x))[1])

    return ModelGraph(model, read, SIGNATURE), traces


def test_assigned_weights_count_without_another_trace(model, traced):
    graph, traces = traced
    for factor in (1.0, 0.5):
        model.set_weights([factor * np.ones_like(weight) for weight in model.get_weights()])
        np.testing.assert_array_equal(graph(X), np.full((1, 3), 7 * factor))
    assert len(traces) == 1


def test_other_variables_are_read_from_the_next_call_on(model, traced):
    graph, traces = traced
    graph(X)
    model.enable_lora(2)
    for weight in model.weights:
        weight.assign(np.ones(weight.shape))
    np.testing.assert_allclose(graph(X), np.full((1, 3), 2 * 3 * (1 + 2) + 1))
    graph(X)
    assert len(traces) == 2


def test_tensorflow_keeps_no_gradient_of_a_graph(traced):
    assert not _has_gradients(traced[0].get_concrete_function().graph)


def _has_gradients(graph):
    from tensorflow.python.framework.ops import gradient_registry

    text = str(graph.as_graph_def())
    return any(name in text for name in gradient_registry._registry if name.startswith("CustomGradient-"))


def test_a_tape_of_the_caller_changes_nothing(model, traced):
    with tf.GradientTape() as tape:
        found = traced[0](X)
    np.testing.assert_array_equal(found, traced[0](X))
    assert tape.gradient(found, model.kernel) is None


def test_gradients_of_other_graphs_stay(traced):
    other = tf.function(lambda x: doubled(doubled(x)), input_signature=SIGNATURE)
    other.get_concrete_function()
    traced[0](X)
    with tf.GradientTape() as tape:
        tape.watch(x := tf.constant(X))
        y = other(x)
    np.testing.assert_array_equal(tape.gradient(y, x), np.full_like(X, 4))
    forget_gradients(other.get_concrete_function().graph)
    assert not _has_gradients(other.get_concrete_function().graph)


def test_no_more_graphs_are_kept_than_documented(model):
    cache, graphs = GraphCache(), []
    for number in range(MOST_GRAPHS + 3):
        make = lambda number=number: ModelGraph(model, lambda x: doubled(x) + ops.cast(number, "float32"), SIGNATURE)  # noqa: E731
        graph = cache.get(number, make)
        np.testing.assert_array_equal(graph(X), 2 * X + number)
        graphs.append(weakref.ref(graph.get_concrete_function().graph))
        del graph
    assert [graph() is None for graph in graphs] == [True] * 3 + [False] * MOST_GRAPHS


def test_the_values_that_were_used_last_are_kept_and_others_made_again():
    made = []
    memory = LastUsed(2)
    for key in "aabacab":
        assert memory.get(key, lambda key=key: made.append(key) or key) == key
    assert made == ["a", "b", "c", "b"]  # b was not used for the longest time when c came

"""Sums over the slices of a batch: as over the whole, with random numbers as if slices came one after the other."""

from functools import partial
from itertools import pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.keras_layers import Dropout
from qkv.text.batch import Batch
from qkv.training.slices import Slices


@pytest.fixture
def batch():
    ids = np.random.default_rng(0).integers(1, 9, (5, 7)).astype(np.int32)
    return Batch(*(tf.constant(array) for array in (ids, ids[:, :4], ids[:, 1:5])))


def dropping_model(**seeds):
    model = keras.Sequential([Dropout(0.5, **seeds), Dropout(0.25, **seeds)])
    model.build((None, 4))
    return model


def sums_of(model):
    def function(batch):
        numbers = tf.cast(batch.target_input, tf.float32)
        return [tf.reduce_sum(model(numbers, training=True), 0), tf.reduce_sum(batch.source)]

    return function


@pytest.mark.parametrize("slices", [1, 2, 3, 7])  # with 7, two are empty
def test_slices_sum_to_the_whole_batch(batch, slices):
    function = sums_of(keras.Sequential([keras.layers.Identity()]))
    sums = tf.function(partial(Slices(keras.Sequential(), slices).sum, function))(batch)
    for found, expected in zip(sums, function(batch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_each_slice_draws_its_own_numbers_as_if_it_came_after_the_others(batch, slices):
    model, one_by_one = dropping_model(seed=3), dropping_model(seed=3)
    sliced, function = partial(Slices(model, slices).sum, sums_of(model)), sums_of(one_by_one)
    graph = tf.function(sliced)
    bounds = [5 * number // slices for number in range(slices + 1)]
    for _ in range(2):  # the second update goes on where the first one ended
        parts = [function(batch.rows(start, end)) for start, end in pairwise(bounds)]
        for found, *expected in zip(graph(batch), *parts, strict=True):
            np.testing.assert_allclose(found, tf.add_n(expected), rtol=1e-6)
    for state, expected in zip(model.variables, one_by_one.variables, strict=True):
        np.testing.assert_array_equal(state, expected)


def test_slices_share_a_graph_and_no_call_waits_for_another(batch):
    model, traces = dropping_model(), []
    sliced = partial(Slices(model, 3).sum, lambda batch: traces.append(1) or sums_of(model)(batch))
    graph = tf.function(sliced).get_concrete_function(batch.map(lambda _: tf.TensorSpec([None, None], tf.int32))).graph
    calls = [operation for operation in graph.get_operations() if "PartitionedCall" in operation.type]
    assert (len(traces), len(calls)) == (1, 3)

    def needed(operation):
        before = {*operation.control_inputs, *(tensor.op for tensor in operation.inputs)}
        return before.union(*map(needed, before))

    assert not any(needed(call) & set(calls) for call in calls)


def test_other_variables_change_with_every_slice_and_generators_that_no_model_holds_go_on(batch):
    """A layer of a plugin may count, or draw by Keras' own generator."""
    count = keras.Variable(0.0)

    def function(batch):
        count.assign_add(1.0)
        return [keras.random.uniform((3,))]

    graph = tf.function(partial(Slices(keras.Sequential(), 2).sum, function))
    first, second = graph(batch)[0].numpy(), graph(batch)[0].numpy()
    assert float(count) == 4
    assert (first != second).all()

"""Shapes of which some axes are unknown until a graph runs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.keras_layers import dynamic_shape, reshape


@pytest.mark.parametrize("known", [(None, None, 4), (2, None, None), (None, 3, None), (2, 3, 4)])
def test_known_axes_are_numbers_and_others_are_found_when_the_graph_runs(known):
    @tf.function(input_signature=[tf.TensorSpec(known)])
    def shape_of(x):
        shape = dynamic_shape(x)
        assert [axis if isinstance(axis, int) else None for axis in shape] == list(known)
        return tf.stack(shape)

    np.testing.assert_array_equal(shape_of(tf.zeros((2, 3, 4))), [2, 3, 4])


def test_all_unknown_axes_take_two_operations():
    graph = tf.function(lambda x: dynamic_shape(x), input_signature=[tf.TensorSpec([None] * 4)]).get_concrete_function()
    kinds = {operation.type for operation in graph.graph.get_operations()} - {"Placeholder", "Identity"}
    assert kinds == {"Shape", "Unpack"}


def test_eager_arrays_have_their_shape_and_inputs_of_functional_models_their_unknown_axes():
    assert dynamic_shape(keras.ops.zeros((2, 3))) == dynamic_shape(np.zeros((2, 3))) == (2, 3)
    assert dynamic_shape(keras.Input((None, 3))) == (None, None, 3)
    assert dynamic_shape(keras.Variable(np.zeros((2, 3)))) == (2, 3)


@pytest.mark.parametrize(
    ("spec", "array", "new_shape"),
    [
        ((None, 6), (4, 6), lambda rows, _: (rows, 2, 3)),
        ((None, None), (4, 6), lambda rows, columns: (columns, 2, rows // 2)),
        ((0, None), (0, 6), lambda rows, columns: (columns, 0)),
    ],
)
def test_a_reshape_gives_the_shape_and_computes_no_size_of_an_only_unknown_axis(spec, array, new_shape):
    function = tf.function(lambda x: reshape(x, new_shape(*dynamic_shape(x))), input_signature=[tf.TensorSpec(spec)])
    x = np.arange(np.prod(array), dtype="float32").reshape(array)
    np.testing.assert_array_equal(function(x), x.reshape(new_shape(*array)))
    (sizes,) = [op.inputs[1] for op in function.get_concrete_function().graph.get_operations() if op.type == "Reshape"]
    assert (sizes.op.type == "Const") == (spec == (None, 6))

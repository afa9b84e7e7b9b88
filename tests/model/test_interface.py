"""Rows are repeated for each hypothesis."""

import numpy as np
import tensorflow as tf

from qkv.model.interface import rows_for_each


def test_rows_are_repeated_also_when_there_are_none():
    def repeat(x):
        return rows_for_each((x, tf.constant(7)), 3 * tf.shape(x)[0])

    graph = tf.function(repeat, input_signature=[tf.TensorSpec([None, 2])])
    rows, number = graph([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(rows, [[1, 2]] * 3 + [[3, 4]] * 3)
    assert number == 7
    assert graph(np.zeros((0, 2), "float32"))[0].shape == (0, 2)  # a slice of a batch with fewer rows than slices
    assert rows_for_each(np.zeros((0, 2), "float32"), 0).shape == (0, 2)

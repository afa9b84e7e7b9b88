"""Sizes of arrays: those that are not all known before a graph runs, and those that a constructor is given."""

import operator

import keras
from keras import ops


def dynamic_shape(x):
    """Returns the shape of x as `keras.ops.shape` does: a tuple of numbers, and of scalars for unknown axes.

    For each unknown axis, Keras puts four operations into TensorFlow's graph, and layers ask for hundreds of shapes;
    here two are enough for all axes.

    Example:
        >>> dynamic_shape(ops.ones((2, 5, 4)))
        (2, 5, 4)
    """
    if keras.backend.backend() != "tensorflow" or isinstance(x, keras.KerasTensor):
        return ops.shape(x)
    shape = tuple(x.shape)
    if None not in shape:
        return shape
    import tensorflow as tf  # the layers need no TensorFlow on other backends

    unknown = tf.unstack(tf.shape(x))
    return tuple(axis if known is None else known for known, axis in zip(shape, unknown, strict=True))


def rows_of_each(rows, batch):
    """Returns how many of `rows` belong to each of `batch` sentences; 0 where there is none, as in a slice of a batch
    with fewer sentences than slices."""
    return rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))


def check_sizes(**sizes):
    """Checks sizes and numbers of parts that a constructor is given, by their names; None stands for a default.

    Raises:
        ValueError: one is no whole number, or less than 1.

    Example:
        >>> check_sizes(num_heads=2, value_dim=None)
    """
    for name, size in sizes.items():
        if size is not None and (not hasattr(size, "__index__") or operator.index(size) < 1):
            raise ValueError(f"{name}: expected a whole number, 1 or more, found {size!r}")

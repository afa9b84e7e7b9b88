"""A matrix product over the last axis of an array of any number of axes."""

from keras import ops

from .dynamic_shape import dynamic_shape


def row_product(x, matrix):
    """Computes `x matrix` for x `(..., D)` and a matrix `(D, N)`: `(..., N)`.

    All axes but the last are made one first. A product of more axes would do the same, but multiplies their lengths on
    the device, and on a GPU waits for the result.

    Example:
        >>> row_product(ops.ones((2, 5, 4)), ops.ones((4, 3))).shape
        TensorShape([2, 5, 3])
    """
    rows = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
    return ops.reshape(rows, (*dynamic_shape(x)[:-1], matrix.shape[-1]))

"""How large an array a result of a layer needs, read from its graph."""

import math

import tensorflow as tf


def largest_array_behind(result, layer, query, key, value, mask):
    """The number of elements of the largest array that one of a mechanism's results is computed from.

    Args:
        result: 0 for the context, 1 for the weights.
        layer: the mechanism.
        query, key, value, mask: shapes and types of its arguments, all known.
    """
    graph = tf.function(lambda *x: layer(*x[:3], mask=x[3])).get_concrete_function(query, key, value, mask)
    waiting, seen = [graph.outputs[result].op], set()
    largest = 0
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs]
            sizes = [
                math.prod(x.shape) for x in operation.outputs if x.dtype != tf.resource and x.shape.is_fully_defined()
            ]
            largest = max([largest, *sizes])
    return largest

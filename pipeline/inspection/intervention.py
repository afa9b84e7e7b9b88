"""Cross-attention with the weights of one head replaced, to see whether they mattered to the model.

Letters: B batch, H heads, T target positions, S source positions, K key size, V value size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import keras
from keras import ops

from ..attention.multi_head import MultiHeadAttention


def uniform(weights, allowed):
    """Gives every allowed key the same weight."""
    equal = ops.cast(allowed, "float32")
    return equal / ops.maximum(ops.sum(equal, axis=-1, keepdims=True), 1.0)


def permuted(weights, allowed, seed=0):
    """Shuffles the weights of each row among its allowed keys; the same seed gives the same order."""
    noise = keras.random.uniform(ops.shape(weights), seed=seed)
    # The allowed keys' weights come first, in random order; the n-th allowed key gets the n-th of them.
    shuffled = ops.take_along_axis(weights, ops.argsort(ops.where(allowed, noise, 2.0), axis=-1), axis=-1)
    place = ops.maximum(ops.cumsum(ops.cast(allowed, "int32"), axis=-1) - 1, 0)
    return ops.where(allowed, ops.take_along_axis(shuffled, place, axis=-1), 0.0)


def without_top(weights, allowed):
    """Removes the largest weight of each row and scales the others up; where they are zero, they become equal."""
    top = ops.one_hot(ops.argmax(weights, axis=-1), ops.shape(weights)[-1], dtype="bool")
    others = ops.logical_and(allowed, ops.logical_not(top))
    rest = ops.where(others, weights, 0.0)
    total = ops.sum(rest, axis=-1, keepdims=True)
    rest = ops.where(total > 1e-9, rest / ops.maximum(total, 1e-9), uniform(weights, others))
    return ops.where(ops.any(others, axis=-1, keepdims=True), rest, weights)  # a single key keeps its weight


CHANGES = {"uniform": uniform, "permuted": permuted, "without_top": without_top}


@contextmanager
def changed_head(layers: Sequence[MultiHeadAttention], layer, head, change) -> Iterator[None]:
    """Replaces the weights of one head of one of the layers within the block; the layer returns the new weights.

    Args:
        layers: attention layers whose mechanism holds all weights.
        layer: int, index of the layer; may be a tensor, so that one graph serves all. -1 for none.
        head: int, index of its head.
        change: int, index into `CHANGES`.
    """

    def attend_with(attention, number):
        def attend(query, key, value, mask=None, training=None):
            context, weights = attention.mechanism(query, key, value, mask=mask, training=training)
            allowed = ops.broadcast_to(True if mask is None else mask, ops.shape(weights))
            others = ops.stack([make(weights, allowed) for make in CHANGES.values()])
            heads = ops.reshape(ops.arange(attention.num_heads), (-1, 1, 1))
            here = ops.logical_and(ops.equal(heads, head), ops.equal(number, layer))
            weights = ops.where(here, ops.take(others, change, axis=0), weights)
            other_context = ops.matmul(ops.cast(weights, value.dtype), value)
            return attention.merge_heads(ops.where(here, other_context, context)), weights

        return attend

    for number, attention in enumerate(layers):
        # Set on the object, so that its class stays as it is.
        attention.attend = attend_with(attention, number)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for attention in layers:
            del attention.attend

"""R-Drop: two passes with different dropout are pulled towards the same predictions (Liang et al. 2021, equation 2).

Letters: N tokens, D model width, V vocabulary.
"""

import tensorflow as tf

from ..runtime.devices import sizes
from .loss import even_chunks

CHUNK_TOKENS: int | None = None
"""Tokens of either pass whose scores exist at the same time; None for what suits the device."""


def fused_divergence(first, second, table, token_weights):
    """Computes `sum_n w_n (KL(p_n || q_n) + KL(q_n || p_n)) / 2`, where p and q are the softmax of `first table^T` and
    `second table^T`, and its gradient together, a chunk of tokens at a time.

    Args:
        first: float `(N, D)`, the states of the first pass.
        second: float `(N, D)`, the states of the second pass.
        table: `(V, D)`, the output embedding.
        token_weights: float32 `(N,)`: 1 for a token that counts, 0 for padding.

    Returns:
        float32 scalar, the sum over tokens. Divide it by the number of tokens of all replicas.
    """

    @tf.custom_gradient
    def divergence_of(first, second, table):
        value, gradients = _value_and_gradients(first, second, table, token_weights)
        first_gradient, second_gradient, table_gradient = gradients

        def gradient(upstream):
            return (
                tf.cast(upstream * first_gradient, first.dtype),
                tf.cast(upstream * second_gradient, second.dtype),
                upstream * table_gradient,
            )

        return value, gradient

    return divergence_of(first, second, tf.convert_to_tensor(table))


def _value_and_gradients(first, second, table, token_weights):
    product_type = first.dtype  # as in `fused_cross_entropy`
    kernel = tf.cast(table, product_type)
    count = tf.shape(first)[0]
    chunks, size = even_chunks(count, CHUNK_TOKENS or sizes().divergence_chunk_tokens)
    filled = [tf.pad(states, ((0, chunks * size - count), (0, 0))) for states in (first, second)]
    filled_weights = tf.pad(token_weights, ((0, chunks * size - count),))

    def chunk(index, value, table_gradient, first_gradient, second_gradient):
        rows = [tf.slice(states, (index * size, 0), (size, states.shape[1])) for states in filled]
        scores = [tf.cast(tf.matmul(states, kernel, transpose_b=True), tf.float32) for states in rows]
        weights = tf.slice(filled_weights, (index * size,), (size,))[:, None] / 2
        chunk_value, score_gradients = _score_gradients(scores[0], scores[1], weights)
        value += chunk_value
        states_gradients = []
        for gradient, states in zip(score_gradients, rows, strict=True):
            gradient = tf.cast(gradient, product_type)
            states_gradients.append(tf.cast(tf.matmul(gradient, kernel), tf.float32))
            table_gradient += tf.cast(tf.matmul(gradient, states, transpose_a=True), tf.float32)
        return (
            index + 1,
            value,
            table_gradient,
            first_gradient.write(index, states_gradients[0]),
            second_gradient.write(index, states_gradients[1]),
        )

    shape = (None, table.shape[-1])
    _, value, table_gradient, first_gradient, second_gradient = tf.while_loop(
        lambda index, *_: index < chunks,
        chunk,
        (
            0,
            0.0,
            tf.zeros(table.shape, tf.float32),
            *(tf.TensorArray(tf.float32, chunks, element_shape=shape) for _ in range(2)),
        ),
        parallel_iterations=1,
    )
    return value, (first_gradient.concat()[:count], second_gradient.concat()[:count], table_gradient)


def _score_gradients(first, second, weights):
    """The divergence of a chunk by its scores `(n, V)`, and its gradient by either."""
    p, q = tf.nn.softmax(first), tf.nn.softmax(second)
    # log p - log q but for the two normalisers: they cancel in the value, as p and q have the same sum, and in the
    # gradients, from which their means are subtracted.
    apart = first - second
    change = p - q
    return tf.reduce_sum(weights * change * apart), (
        weights * (change + p * (apart - tf.reduce_sum(p * apart, -1, keepdims=True))),
        weights * (-change - q * (apart - tf.reduce_sum(q * apart, -1, keepdims=True))),
    )

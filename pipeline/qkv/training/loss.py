"""The loss: label-smoothed cross-entropy, summed over target tokens.

Letters: N tokens, D model width, V vocabulary.
"""

import tensorflow as tf

from ..runtime.devices import sizes

CHUNK_TOKENS: int | None = None
"""Tokens whose scores exist at the same time; None for what suits the device."""


def fused_cross_entropy(states, table, targets, token_weights, label_smoothing=0.0):
    """Computes `sum_n w_n (logsumexp(l_n) - (1 - e) l_n[target] - e mean(l_n))` (Szegedy et al. 2016, section 7), where
    the logits l are `states table^T`, and its gradient together, a chunk of tokens at a time.

    The `(N, V)` logits are by far the largest array of a step, and the plain formula writes and reads it about ten
    times. Here only one chunk of it exists at a time, and stays in the cache.

    Args:
        states: float `(N, D)`.
        table: `(V, D)`, the output embedding.
        targets: int `(N,)`.
        token_weights: float32 `(N,)`: 1 for a token that counts, 0 for padding.
        label_smoothing: e, the probability that is spread evenly over the vocabulary.

    Returns:
        float32 scalar, the sum over tokens. Divide it by the number of tokens of all replicas.
    """

    @tf.custom_gradient
    def loss_of(states, table):
        loss, states_gradient, table_gradient = _loss_and_gradients(
            states, table, targets, token_weights, label_smoothing
        )

        def gradient(upstream):
            return tf.cast(upstream * states_gradient, states.dtype), upstream * table_gradient

        return loss, gradient

    return loss_of(states, tf.convert_to_tensor(table))


def even_chunks(count, most):
    """Returns the number of chunks of up to `most` rows for `count` rows, and the number of rows of each.

    Chunks are as even as possible, since the padding of the last one costs time too.
    """
    chunks = tf.maximum((count + most - 1) // most, 1)
    return chunks, (count + chunks - 1) // chunks


def _loss_and_gradients(states, table, targets, token_weights, label_smoothing):
    product_type = states.dtype  # bfloat16 where the model computes in it; sums are float32
    kernel = tf.cast(table, product_type)
    count = tf.shape(states)[0]
    chunks, size = even_chunks(count, CHUNK_TOKENS or sizes().loss_chunk_tokens)
    filled = tf.pad(states, ((0, chunks * size - count), (0, 0)))
    filled_weights = tf.pad(token_weights, ((0, chunks * size - count),))

    def chunk(index, table_gradient, normalizers, states_gradient):
        rows = tf.slice(filled, (index * size, 0), (size, filled.shape[1]))  # XLA must know its size
        scores = tf.cast(tf.matmul(rows, kernel, transpose_b=True), tf.float32)
        highest = tf.reduce_max(scores, -1, keepdims=True)
        powers = tf.exp(scores - highest)
        total = tf.reduce_sum(powers, -1, keepdims=True)
        powers = tf.cast(powers, product_type)
        scale = tf.slice(filled_weights, (index * size,), (size,))[:, None] / total
        scaled_rows = tf.cast(tf.cast(rows, tf.float32) * scale, product_type)
        chunk_gradient = tf.cast(tf.matmul(powers, kernel), tf.float32) * scale
        table_gradient += tf.cast(tf.matmul(powers, scaled_rows, transpose_a=True), tf.float32)
        return (
            index + 1,
            table_gradient,
            normalizers.write(index, (highest + tf.math.log(total))[:, 0]),
            states_gradient.write(index, chunk_gradient),
        )

    shapes = (None,), (None, table.shape[-1])
    arrays = [tf.TensorArray(tf.float32, chunks, element_shape=shape) for shape in shapes]
    _, table_gradient, normalizers, states_gradient = tf.while_loop(
        lambda index, *_: index < chunks,
        chunk,
        (0, tf.zeros(table.shape, tf.float32), *arrays),
        parallel_iterations=1,  # several chunks at once would not fit into the cache
    )
    normalizers, states_gradient = normalizers.concat()[:count], states_gradient.concat()[:count]
    right_scores, expected_rows, right_table, mean_table = _label_terms(
        states, table, targets, token_weights, label_smoothing
    )
    loss = tf.reduce_sum(token_weights * (normalizers - right_scores))
    return loss, states_gradient - expected_rows, table_gradient - right_table - mean_table


def _label_terms(states, table, targets, token_weights, label_smoothing):
    """Returns what the reference token and label smoothing subtract from the loss of each token, and from both
    gradients.

    These terms need no scores: the reference token takes a row of the table, label smoothing the mean of its rows.
    """
    states = tf.cast(states, tf.float32)
    right_rows = tf.gather(tf.cast(table, tf.float32), targets)
    mean_row = tf.reduce_mean(tf.cast(table, tf.float32), 0)
    expected_rows = (1 - label_smoothing) * right_rows + label_smoothing * mean_row
    weighted = states * token_weights[:, None]
    right_table = (1 - label_smoothing) * tf.math.unsorted_segment_sum(weighted, targets, table.shape[0])
    mean_table = label_smoothing / table.shape[0] * tf.reduce_sum(weighted, 0)
    return tf.reduce_sum(states * expected_rows, -1), token_weights[:, None] * expected_rows, right_table, mean_table

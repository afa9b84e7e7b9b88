"""The losses as their papers write them, on whole arrays of logits, against which the fused ones are compared.

Letters: N tokens, V vocabulary.
"""

import tensorflow as tf


def cross_entropy(logits, targets, token_weights, label_smoothing=0.0):
    """`sum_n w_n (logsumexp(l_n) - (1 - e) l_n[target] - e mean(l_n))` (Szegedy et al. 2016, section 7) of logits
    `(N, V)`, targets and weights of tokens `(N,)`."""
    logits = tf.cast(logits, tf.float32)
    right = tf.gather(logits, targets, batch_dims=1)
    smoothed = (1 - label_smoothing) * right + label_smoothing * tf.reduce_mean(logits, -1)
    return tf.reduce_sum(token_weights * (tf.reduce_logsumexp(logits, -1) - smoothed))


def divergence(first_logits, second_logits, token_weights):
    """`sum_n w_n (KL(p_n || q_n) + KL(q_n || p_n)) / 2` (Liang et al. 2021, equation 2) of logits `(N, V)`, of which p
    and q are the softmax."""
    first, second = (tf.nn.log_softmax(tf.cast(logits, tf.float32)) for logits in (first_logits, second_logits))
    return tf.reduce_sum(token_weights * tf.reduce_sum((tf.exp(first) - tf.exp(second)) * (first - second), -1)) / 2

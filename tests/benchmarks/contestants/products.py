"""Products of two large matrices: what the machine could do."""

import tensorflow as tf

SIZE = 2048
TIMES = 10


def prepare(settings):
    """`settings["precision"]` is the number format, `float32` or `bfloat16`."""
    x = tf.cast(tf.random.stateless_normal((SIZE, SIZE), (0, 0)), settings["precision"])
    product = tf.function(lambda: tf.matmul(x, x))

    def turn():
        for _ in range(TIMES):
            last = product()
        float(last[0, 0])  # a GPU may not have finished before
        return {"flops": 2.0 * TIMES * SIZE**3}

    return turn

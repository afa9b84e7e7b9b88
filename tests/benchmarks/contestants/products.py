"""Products of two large matrices: what the machine could do."""

import tensorflow as tf

SIZE, TIMES = 2048, 10  # a GPU needs larger and more products


def prepare(settings):
    """`settings["precision"]` is the number format, `float32` or `bfloat16`; `size` and `times` may be given."""
    size, times = settings.get("size", SIZE), settings.get("times", TIMES)
    x = tf.cast(tf.random.stateless_normal((size, size), (0, 0)), settings["precision"])
    product = tf.function(lambda: tf.matmul(x, x))

    def turn():
        for _ in range(times):
            last = product()
        float(last[0, 0])  # a GPU may not have finished before
        return {"flops": 2.0 * times * size**3}

    return turn

"""What the machine has and can do: memory, and the speed of its matrix products."""

import os
import resource
import time

import tensorflow as tf

MATRIX = 1024  # rows and columns of the matrices that are multiplied


def total_memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int:
    """The most bytes of memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def product_rate(dtype: str) -> float:
    """Arithmetic operations a second of matrix products in a number format, the best of four."""
    x = tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype)
    seconds = []
    for _ in range(4):
        started = time.monotonic()
        tf.matmul(x, x).numpy()
        seconds.append(time.monotonic() - started)
    return 2 * MATRIX**3 / min(seconds)

"""Measures of the machine: its memory, and the speed of its matrix products."""

import os
import resource
import time

import tensorflow as tf

MATRIX = 1024  # rows and columns of the matrices that are multiplied


def total_memory() -> int:
    """Returns the memory of the machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int:
    """Returns the peak memory use of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def product_rate(dtype: str) -> float:
    """Measures the arithmetic operations per second of matrix products in a number format, as the best of four runs."""
    x = tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype)
    seconds = []
    for _ in range(4):
        started = time.monotonic()
        tf.matmul(x, x).numpy()
        seconds.append(time.monotonic() - started)
    return 2 * MATRIX**3 / min(seconds)

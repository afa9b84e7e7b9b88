"""Measures of the machine: its memory, and the speed of its matrix products."""

import os
import sys
import time

import tensorflow as tf

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MATRIX = 1024  # rows and columns of the matrices that are multiplied


def total_memory() -> int | None:
    """Returns the memory of the machine, in bytes, where the system tells it."""
    if not hasattr(os, "sysconf"):  # Windows
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int | None:
    """Returns the peak memory use of this process so far, in bytes, where the system tells it."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def product_rate(dtype: str) -> float:
    """Measures the arithmetic operations per second of matrix products in a number format, as the best of four runs."""
    x = tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype)
    seconds = []
    for _ in range(4):
        started = time.monotonic()
        tf.matmul(x, x).numpy()
        seconds.append(time.monotonic() - started)
    return 2 * MATRIX**3 / min(seconds)

"""Models whose variables need no values yet, because they are loaded from a file."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras


@contextmanager
def unset_values() -> Iterator[None]:
    """Lets layers that are built within the block begin with zeros, instead of drawing random numbers, which takes a
    second for every ten million."""
    add_weight = keras.Layer.add_weight

    def add_zeros(layer, shape=None, initializer=None, *arguments, **settings):
        return add_weight(layer, shape, "zeros", *arguments, **settings)

    keras.Layer.add_weight = add_zeros
    try:
        yield
    finally:
        keras.Layer.add_weight = add_weight

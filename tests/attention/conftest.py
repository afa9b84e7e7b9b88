"""Queries, keys and values of different lengths and widths."""

import numpy as np
import pytest


@pytest.fixture
def inputs():
    """Of whole layers."""
    generator = np.random.default_rng(0)
    return [generator.normal(size=shape).astype("float32") for shape in ((2, 3, 8), (2, 5, 6), (2, 5, 7))]

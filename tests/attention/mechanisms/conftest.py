"""Queries, keys and values of two heads."""

import numpy as np
import pytest


@pytest.fixture
def inputs():
    """Of mechanisms, whose first axes are those of sentences and heads."""
    generator = np.random.default_rng(0)
    return [generator.normal(size=(2, 2, *shape)).astype("float32") for shape in ((3, 4), (5, 4), (5, 6))]

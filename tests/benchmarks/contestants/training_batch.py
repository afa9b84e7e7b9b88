"""The batch that every contestant of training is given: random tokens, no padding, BOS and EOS left aside."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def make_batch(settings: Mapping[str, Any]) -> list[np.ndarray]:
    """Source, target input and target output, int32 `(sentences, length)`."""
    generator = np.random.default_rng(0)
    shape = settings["sentences"], settings["length"]
    return [generator.integers(4, settings["vocabulary"], shape).astype("int32") for _ in range(3)]

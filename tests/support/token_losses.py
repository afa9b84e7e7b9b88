"""Two target sentences with their logits, and the losses of their tokens by definition."""

import numpy as np

TARGETS = np.array([[4, 2, 3, 0], [3, 0, 0, 0]], "int32")
LOGITS = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
REAL = TARGETS != 0
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
LOSSES = -np.log(np.take_along_axis(PROBABILITIES, TARGETS[..., None], -1)[..., 0])

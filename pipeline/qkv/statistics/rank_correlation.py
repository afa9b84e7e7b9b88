"""How alike two orders of the same things are."""

import numpy as np


def kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes Kendall's tau-b over the last axis (Kendall 1945): of all pairs, the share that both order alike less
    the share that they order differently, corrected for ties; from -1 to 1, not-a-number if one of them orders nothing.

    Args:
        x: `(..., n)`.
        y: `(..., n)`.

    Returns:
        `(...)`.
    """
    signs = [np.sign(values[..., :, None] - values[..., None, :]) for values in (x, y)]
    alike = (signs[0] * signs[1]).sum(axis=(-2, -1))
    ordered = [np.abs(sign).sum(axis=(-2, -1)) for sign in signs]
    below = np.sqrt(ordered[0] * ordered[1])
    return np.divide(alike, below, out=np.full(np.shape(alike), np.nan), where=below > 0)

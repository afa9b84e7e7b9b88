"""The number of directions in which a head compares queries and keys: the singular values of `W_Q W_K^T`.

The score of a query x and a key y is `x W_Q W_K^T y^T`, so a head's score depends on its input through this
matrix alone.
"""

import numpy as np
import pandas as pd


def query_key_spectrum(query_kernel: np.ndarray, key_kernel: np.ndarray) -> np.ndarray:
    """Computes the singular values of `W_Q W_K^T`, largest first: `(K,)`.

    Args:
        query_kernel: W_Q of one head, `(D, K)`.
        key_kernel: W_K of one head, `(M, K)`.
    """
    # The triangular factors have the same singular values, and K is much smaller than D.
    query, key = (
        np.asarray(np.linalg.qr(kernel.astype(np.float64), mode="r")) for kernel in (query_kernel, key_kernel)
    )
    return np.linalg.svd(query @ key.T, compute_uv=False)


def effective_rank(values: np.ndarray) -> float:
    """Computes the exponential of the entropy of the normalised singular values (Roy and Vetterli 2007): 1 for a matrix
    of rank one, K for K equal values; not-a-number for a matrix of zeros."""
    total = values.sum()
    if not total > 0:
        return float("nan")
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def spectra_table(kernels: list[tuple[np.ndarray, np.ndarray]], heads: int) -> pd.DataFrame:
    """Makes a table with a row for each layer and head of the cross-attention.

    Args:
        kernels: `(W_Q, W_K)` of each layer, `(D, H * K)` and `(M, H * K)`.
        heads: H.

    Returns:
        `layer`, `head`, `effective_rank`, `largest` (the first singular value), `largest_share` (of their sum), and
        `size`, K, the most that the rank can be.
    """
    rows = []
    for layer, (query, key) in enumerate(kernels):
        pairs = zip(np.split(query, heads, axis=1), np.split(key, heads, axis=1), strict=True)
        for head, pair in enumerate(pairs):
            values = query_key_spectrum(*pair)
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "effective_rank": effective_rank(values),
                    "largest": values[0],
                    "largest_share": values[0] / values.sum() if values.sum() > 0 else float("nan"),
                    "size": len(values),
                }
            )
    return pd.DataFrame(rows, columns=["layer", "head", "effective_rank", "largest", "largest_share", "size"])

"""The directions in which a head compares queries and keys: the singular values of `W_Q W_K^T`, and heads that compare
in fewer of them.

The score of a query x and a key y is `x W_Q W_K^T y^T`, so a head's score depends on its input through this matrix
alone. Its best approximation of a rank replaces it.

Letters: H heads, K key size, D and M the widths of what queries and keys are made from, r the rank.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pandas as pd

from ...attention import SelfAttention
from ...attention.multi_head import AttentionLayer


def query_key_spectrum(query_kernel: np.ndarray, key_kernel: np.ndarray) -> np.ndarray:
    """Computes the singular values of `W_Q W_K^T`, largest first: `(K,)`.

    Args:
        query_kernel: W_Q of one head, `(D, K)`.
        key_kernel: W_K of one head, `(M, K)`.
    """
    query, key = _triangular(query_kernel), _triangular(key_kernel)
    return np.linalg.svd(query @ key.T, compute_uv=False)


def _triangular(kernel: np.ndarray) -> np.ndarray:
    """Returns the triangular factor: with it in the kernel's place the singular values stay, and K is far below D."""
    return np.asarray(np.linalg.qr(kernel.astype(np.float64), mode="r"))


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
            largest_share = values[0] / values.sum() if values.sum() > 0 else float("nan")
            rows.append((layer, head, effective_rank(values), values[0], largest_share, len(values)))
    return pd.DataFrame(rows, columns=["layer", "head", "effective_rank", "largest", "largest_share", "size"])


def compares_by_product(layer: AttentionLayer) -> bool:
    """Says whether `W_Q W_K^T` decides the scores of a layer: it projects queries and keys by matrices of their own,
    and its score is their product."""
    own = layer.spec.projection and not layer.mechanism.shares_query_and_key
    return own and layer.score is not None and layer.score.is_product


def query_key_kernels(layer: AttentionLayer) -> tuple[np.ndarray, np.ndarray]:
    """Returns W_Q `(D, H * K)` and W_K `(M, H * K)` of a layer, also where one matrix holds them with W_V. Keys that
    several heads share are repeated for each.

    Raises:
        ValueError: the layer does not compare by a product, see `compares_by_product`.
    """
    query, key = (_columns(dense.kernel, place) for dense, place in _sides(layer))
    by_head = key.reshape(len(key), layer.key_value_heads, layer.key_dim)
    return query, by_head.repeat(layer.num_heads // layer.key_value_heads, axis=1).reshape(len(key), -1)


def rank_projections(query_kernel: np.ndarray, key_kernel: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the matrices that leave a head `rank` directions in which to compare.

    With the singular value decomposition `W_Q W_K^T = U S V^T`, they make `W_Q P = U_r S_r^(1/2)` and
    `W_K R = V_r S_r^(1/2)`, so that `W_Q P (W_K R)^T` is the approximation of rank r with the smallest squared error
    (Eckart and Young 1936). The columns beyond r are zeros, so both fit where W_Q and W_K stood.

    Args:
        query_kernel: W_Q of one head, `(D, K)`.
        key_kernel: W_K of one head, `(M, K)`.
        rank: r, 0 to K.

    Returns:
        P and R, float64 `(K, K)`. Queries and keys, biases included, are multiplied by them. At rank K both are the
        identity.

    Raises:
        ValueError: the rank is not from 0 to K.
    """
    size = query_kernel.shape[1]
    if not 0 <= rank <= size:
        raise ValueError(f"rank: expected 0 to {size}, the size of a head's queries and keys, found {rank}")
    if rank == size:
        return np.eye(size), np.eye(size)
    query, key = _triangular(query_kernel), _triangular(key_kernel)
    left, values, right = np.linalg.svd(query @ key.T)
    kept = min(rank, int(np.sum(values > values[0] * np.finfo(np.float64).eps * size)))
    shrink = values[:kept] ** -0.5
    projections = np.zeros((2, size, size))
    projections[0, :, :kept] = key.T @ right[:kept].T * shrink
    projections[1, :, :kept] = query.T @ left[:, :kept] * shrink
    return projections[0], projections[1]


def truncate_heads(layers: Sequence[AttentionLayer], rank: int) -> Callable[[], None]:
    """Replaces `W_Q W_K^T` of every head of these layers by its best approximation of a rank.

    The layers stay what they are, with columns of zeros in W_Q and W_K, so everything works with their model as before.
    Biases are projected with their matrices, so they are seen in the kept directions alone: at rank 0 all scores are 0,
    and all weights of a row are equal.

    Args:
        layers: layers that compare by a product, see `compares_by_product`.
        rank: r, 0 to K.

    Returns:
        A function that sets back the weights.

    Raises:
        ValueError: a layer does not compare by a product, its heads share keys, or the rank is not from 0 to K.
    """
    changed = [(layer, _sides(layer)) for layer in layers]
    for layer, _ in changed:
        if layer.key_value_heads != layer.num_heads:
            raise ValueError(f"{layer.path}: expected a layer whose heads have keys of their own, found shared ones")
    before = [(variable, variable.numpy()) for _, sides in changed for dense, _ in sides for variable in dense.weights]
    for layer, sides in changed:
        heads = layer.num_heads
        kernels = zip(*(np.split(_columns(dense.kernel, place), heads, axis=1) for dense, place in sides), strict=True)
        by_side = zip(*(rank_projections(query, key, rank) for query, key in kernels), strict=True)
        for (dense, place), projections in zip(sides, by_side, strict=True):
            for variable in dense.weights:
                whole = np.array(variable)
                parts = zip(np.split(whole[..., place], heads, axis=-1), projections, strict=True)
                whole[..., place] = np.concatenate([part @ matrix for part, matrix in parts], axis=-1)
                variable.assign(whole)

    def restore() -> None:
        for variable, value in before:
            variable.assign(value)

    return restore


def _sides(layer: AttentionLayer) -> list[tuple[Any, slice]]:
    """Returns the dense layers of queries and of keys, and their columns in each."""
    if not compares_by_product(layer):
        raise ValueError(f"{layer.path}: expected scores that are products of queries and keys with their own matrices")
    if isinstance(layer, SelfAttention):
        queries, keys = layer.num_heads * layer.key_dim, layer.key_value_heads * layer.key_dim
        return [(layer.qkv_projection, slice(0, queries)), (layer.qkv_projection, slice(queries, queries + keys))]
    return [(layer.query_projection, slice(None)), (layer.key_projection, slice(None))]


def _columns(variable: Any, place: slice) -> np.ndarray:
    return keras.ops.convert_to_numpy(variable)[..., place]

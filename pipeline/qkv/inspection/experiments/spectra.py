"""The singular values of a head's `W_Q W_K^T`, and low-rank approximations of this matrix.

The score of a query state x and a key state y is `x W_Q W_K^T y^T`, so a head's scores depend on the states through
this matrix only. Its rank is the number of directions in which the head compares queries and keys.

Letters: H heads, K key size, D and M the widths of the states that queries and keys are made from, r the rank.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import keras
import numpy as np
import pandas as pd

from ...attention import SelfAttention
from ...attention.multi_head import AttentionLayer

__all__ = [
    "effective_rank",
    "query_key_kernels",
    "query_key_spectrum",
    "rank_projections",
    "spectra_table",
    "truncate_heads",
]


def query_key_spectrum(query_kernel: np.ndarray, key_kernel: np.ndarray) -> np.ndarray:
    """Computes the singular values of `W_Q W_K^T`.

    Args:
        query_kernel: W_Q of one head, `(D, K)`.
        key_kernel: W_K of one head, `(M, K)`.

    Returns:
        float64 `(K,)`, the largest first.
    """
    query, key = _triangular(query_kernel), _triangular(key_kernel)
    return np.linalg.svd(query @ key.T, compute_uv=False)


def _triangular(kernel: np.ndarray) -> np.ndarray:
    """Returns the triangular factor of the kernel's QR decomposition, `(K, K)`.

    `W_Q W_K^T` has the same singular values if both kernels are replaced by their factors, which are much smaller.
    """
    return np.asarray(np.linalg.qr(kernel.astype(np.float64), mode="r"))


def effective_rank(values: np.ndarray) -> float:
    """Computes the effective rank of a matrix from its singular values (Roy and Vetterli 2007).

    It is the exponential of the entropy of the singular values, scaled to a sum of 1: 1 for a matrix of rank one, K for
    K equal singular values. It is NaN for a matrix of zeros.

    Args:
        values: the singular values, `(K,)`, none of them negative.
    """
    total = values.sum()
    if not total > 0:
        return float("nan")
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def spectra_table(kernels: list[tuple[np.ndarray, np.ndarray]], heads: int) -> pd.DataFrame:
    """Makes the table of the spectra of some layers.

    Args:
        kernels: `(W_Q, W_K)` of each layer, `(D, H * K)` and `(M, H * K)`.
        heads: H.

    Returns:
        A row for each layer and head, with the columns `layer`, `head`, `effective_rank`, `largest` (the largest
        singular value), `largest_share` (its share of the sum of singular values; NaN for a matrix of zeros), and
        `size` (K, the largest possible rank).
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
    """Returns True if the scores of a layer are `x W_Q W_K^T y^T` up to a factor and biases.

    The layer must project queries and keys by two different matrices, and its score must be their product.
    """
    has_two_projections = layer.spec.projection and not layer.mechanism.shares_query_and_key
    return has_two_projections and layer.score is not None and layer.score.is_product


def query_key_kernels(layer: AttentionLayer) -> tuple[np.ndarray, np.ndarray]:
    """Returns W_Q `(D, H * K)` and W_K `(M, H * K)` of a layer.

    Columns of W_K that several heads share are repeated for each of these heads.

    Raises:
        ValueError: the layer does not compare by a product, see `compares_by_product`.
    """
    query, key = (read_columns(dense.kernel, columns) for dense, columns in _projections(layer))
    by_head = key.reshape(len(key), layer.key_value_heads, layer.key_dim)
    return query, by_head.repeat(layer.num_heads // layer.key_value_heads, axis=1).reshape(len(key), -1)


def rank_projections(query_kernel: np.ndarray, key_kernel: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the matrices P and R that reduce the rank of a head's `W_Q W_K^T` to at most `rank`.

    If `W_Q W_K^T = U S V^T` is the singular value decomposition, then `W_Q P = U_r S_r^(1/2)` and
    `W_K R = V_r S_r^(1/2)`. So `W_Q P (W_K R)^T` is the approximation of rank r with the smallest squared error (Eckart
    and Young 1936). The columns beyond r are zeros, so `W_Q P` and `W_K R` have the shapes of W_Q and W_K.

    Args:
        query_kernel: W_Q of one head, `(D, K)`.
        key_kernel: W_K of one head, `(M, K)`.
        rank: r, 0 to K.

    Returns:
        `(P, R)`, float64 `(K, K)` each: factors of the queries and of the keys, biases included. If `rank` is K, both
        are the identity.

    Raises:
        ValueError: `rank` is not from 0 to K.
    """
    size = query_kernel.shape[1]
    if not 0 <= rank <= size:
        raise ValueError(f"rank: expected 0 to {size}, the size of a head's queries and keys, found {rank}")
    if rank == size:
        return np.eye(size), np.eye(size)
    query, key = _triangular(query_kernel), _triangular(key_kernel)
    left, values, right = np.linalg.svd(query @ key.T)
    directions = min(rank, int(np.sum(values > values[0] * np.finfo(np.float64).eps * size)))
    scale = values[:directions] ** -0.5
    query_projection = np.zeros((size, size))
    key_projection = np.zeros((size, size))
    query_projection[:, :directions] = key.T @ right[:directions].T * scale
    key_projection[:, :directions] = query.T @ left[:, :directions] * scale
    return query_projection, key_projection


def truncate_heads(layers: Sequence[AttentionLayer], rank: int) -> Callable[[], None]:
    """Replaces `W_Q W_K^T` of every head of these layers by its best approximation of a rank.

    The weights W_Q, W_K and their biases are changed in place and keep their shapes, so the model of the layers can be
    used as before. Biases are projected with the matrices: at rank 0 all scores are 0, and all weights of a row are
    equal.

    Args:
        layers: layers that compare by a product, see `compares_by_product`.
        rank: r, 0 to K.

    Returns:
        A function that restores the original weights.

    Raises:
        ValueError: a layer does not compare by a product, its heads share keys, or `rank` is not from 0 to K.
    """
    projections = [(layer, _projections(layer)) for layer in layers]
    for layer, _ in projections:
        if layer.key_value_heads != layer.num_heads:
            raise ValueError(f"{layer.path}: expected a layer with separate keys for each head, found shared keys")
    original = [
        (variable, variable.numpy())
        for _, layer_projections in projections
        for dense, _ in layer_projections
        for variable in dense.weights
    ]
    for layer, layer_projections in projections:
        heads = layer.num_heads
        query_kernels, key_kernels = (
            np.split(read_columns(dense.kernel, columns), heads, axis=1) for dense, columns in layer_projections
        )
        factors = [rank_projections(*kernels, rank) for kernels in zip(query_kernels, key_kernels, strict=True)]
        for side, (dense, columns) in enumerate(layer_projections):
            for variable in dense.weights:
                weights = np.array(variable)
                head_weights = np.split(weights[..., columns], heads, axis=-1)
                projected = [part @ factors[head][side] for head, part in enumerate(head_weights)]
                weights[..., columns] = np.concatenate(projected, axis=-1)
                variable.assign(weights)

    def restore() -> None:
        for variable, value in original:
            variable.assign(value)

    return restore


def head_projections(layer: AttentionLayer) -> dict[str, tuple[Any, slice]]:
    """Returns the projections that a layer has.

    Returns:
        name -> `(dense layer, columns)`, for the names among `query`, `key`, `value` and `output`. The columns of the
        dense layer's kernel compute the queries, the keys or the values. If queries and keys share a projection, its
        name is `key`.
    """
    if isinstance(layer, SelfAttention):
        ends = accumulate(layer.widths.values())
        columns = {name: slice(end - width, end) for (name, width), end in zip(layer.widths.items(), ends, strict=True)}
        projections = {name: (layer.qkv_projection, part) for name, part in columns.items()}
    else:
        names = ("query", "key", "value")
        dense_layers = {name: getattr(layer, f"{name}_projection", None) for name in names}
        projections = {name: (dense, slice(None)) for name, dense in dense_layers.items() if dense is not None}
    if layer.output_projection is not None:
        projections["output"] = (layer.output_projection, slice(None))
    return projections


def _projections(layer: AttentionLayer) -> list[tuple[Any, slice]]:
    """Returns the projections of the queries and of the keys of a layer, see `head_projections`.

    Raises:
        ValueError: the layer does not compare by a product, see `compares_by_product`.
    """
    if not compares_by_product(layer):
        raise ValueError(f"{layer.path}: expected scores that are products of queries and keys with their own matrices")
    projections = head_projections(layer)
    return [projections["query"], projections["key"]]


def read_columns(variable: Any, columns: slice) -> np.ndarray:
    """Returns some columns of a kernel, or some numbers of a bias."""
    return keras.ops.convert_to_numpy(variable)[..., columns]

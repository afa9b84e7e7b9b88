"""A table of the matrices of attention heads: their sizes, norms and ranks.

Head h computes `softmax(x W_Q W_K^T y^T) y W_V W_O`. W_Q and W_K act through the product `W_Q W_K^T` alone, which
decides where the head attends; W_V and W_O through `W_V W_O`, which decides what it adds (Elhage et al. 2021, A
Mathematical Framework for Transformer Circuits).
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from ...attention.multi_head import AttentionLayer
from ...model.interface import TranslationModel
from .spectra import effective_rank, head_projections, query_key_spectrum, read_columns

COLUMNS = [
    *("site", "layer", "head", "key_size", "value_size", "parameters"),
    *("norm_q", "norm_k", "norm_v", "norm_o", "norm_qk", "norm_vo", "rank_qk", "rank_vo"),
]
"""The columns of the table, see `head_weights`."""


def head_weights(model: TranslationModel) -> pd.DataFrame:
    """Measures the matrices of every head of a model.

    Args:
        model: a model of any architecture.

    Returns:
        A row for each head, with these columns:

        - site: `encoder`, `decoder` or `cross`. A stack that reads source and target at once has the site `decoder`.
        - layer, head: the indices of the layer and head.
        - key_size, value_size: the sizes of the head's queries and keys, and of its values.
        - parameters: the number of weights in the head's matrices, and in its biases of queries, keys and values. Keys
          and values that several heads share are counted for each of them.
        - norm_q, norm_k, norm_v, norm_o: the Frobenius norms of W_Q, W_K, W_V and W_O.
        - norm_qk, norm_vo: the Frobenius norms of `W_Q W_K^T` and `W_V W_O`.
        - rank_qk, rank_vo: the effective ranks of these products, see `effective_rank`.

        A number is NaN if the head has no such matrix. The table has no rows if the model has no attention.
    """
    layers = model.attention_layers()
    if layers.get("cross") is layers.get("decoder"):  # one stack attends to source and target, or there is no attention
        layers = {"decoder": layers.get("decoder", [])}
    rows = [
        (site, number, head, layer.key_dim, layer.value_dim, *measures)
        for site, layers_of_site in layers.items()
        for number, layer in enumerate(layers_of_site)
        for head, measures in enumerate(_measure_heads(layer))
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _measure_heads(layer: AttentionLayer) -> list[tuple[Any, ...]]:
    """Returns the columns from `parameters` on for each head of a layer."""
    kernels, biases = {}, {}
    for name, (dense, columns) in head_projections(layer).items():
        kernels[name] = read_columns(dense.kernel, columns).astype(np.float64)
        if dense.use_bias and name != "output":
            biases[name] = read_columns(dense.bias, columns)
    if layer.mechanism.shares_query_and_key and "key" in kernels:
        kernels["query"] = kernels["key"]
    sizes = {"query": layer.key_dim, "key": layer.key_dim, "value": layer.value_dim, "output": layer.value_dim}
    heads = []
    for head in range(layer.num_heads):
        shared = head * layer.key_value_heads // layer.num_heads  # the index of its keys and values
        matrices = {}
        for name, kernel in kernels.items():
            index = head if name in ("query", "output") else shared
            part = slice(index * sizes[name], (index + 1) * sizes[name])
            matrices[name] = kernel[part] if name == "output" else kernel[:, part]
        counted = {name: matrix for name, matrix in matrices.items() if name in head_projections(layer)}
        parameters = sum(matrix.size for matrix in counted.values()) + sum(sizes[name] for name in biases)
        norms = [_norm(matrices.get(name)) for name in sizes]
        query_key = _spectrum(matrices.get("query"), matrices.get("key"))
        output = matrices.get("output")
        value_output = _spectrum(matrices.get("value"), None if output is None else output.T)
        products = [_norm(query_key), _norm(value_output)]
        heads.append((parameters, *norms, *products, effective_rank(query_key), effective_rank(value_output)))
    return heads


def _norm(array: np.ndarray | None) -> float:
    """Returns the root of the sum of squares; NaN if there is no array."""
    return math.nan if array is None else float(np.linalg.norm(array))


def _spectrum(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray:
    """Returns the singular values of `left right^T`, or NaN if a matrix is missing."""
    return np.array([math.nan]) if left is None or right is None else query_key_spectrum(left, right)

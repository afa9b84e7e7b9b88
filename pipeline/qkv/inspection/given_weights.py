"""Checks the attention that somebody else's program has computed, before it is archived."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..config.names.inspection import SITES
from ..errors import InputError
from .record import Record

TOLERANCE = 0.01  # of the sum of a row; weights may have been computed in 16 bits


def read_attention(given: Any, record: Record, partial_rows: bool) -> dict[str, np.ndarray]:
    """Returns the float32 weights of each site of a sentence.

    Args:
        given: an array of the cross-attention, or a mapping from sites to arrays.
        record: the sentence's tokens.
        partial_rows: whether rows may sum to less than one.

    Raises:
        InputError: they do not fit the tokens, or are no shares of a row.
    """
    by_site = given if isinstance(given, Mapping) else {"cross": given}
    if unknown := [site for site in by_site if site not in SITES]:
        raise InputError(f"expected attention of sites among {', '.join(SITES)}, found {unknown[0]!r:.60}")
    if "cross" not in by_site:
        raise InputError(f"expected attention of the site 'cross' among others, found {', '.join(by_site) or 'none'}")
    return {site: _read_site(site, weights, record, partial_rows) for site, weights in by_site.items()}


def _read_site(site: str, given: Any, record: Record, partial_rows: bool) -> np.ndarray:
    try:
        weights = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # of PyTorch, for one on a GPU or with a gradient
        raise InputError(f"{site}: cannot be read as an array: {error}; give NumPy arrays") from None
    _check_shape(site, weights, record)
    if weights.dtype.kind != "f":
        raise InputError(f"{site}: expected floating-point numbers, found {weights.dtype}; convert them to float32")
    _check_values(site, weights, partial_rows)
    return weights.astype(np.float32)


def _check_shape(site: str, weights: np.ndarray, record: Record) -> None:
    lengths = {"source": len(record.source_tokens), "target": len(record.target_output_tokens)}
    query, key = SITES[site].axes
    expected = lengths[query], lengths[key]
    if weights.ndim == 4 and weights.shape[2:] == expected:
        return
    advice = "cut the padding off, and keep the special tokens"
    if weights.ndim != 4:
        advice = "stack the layers, and take one sentence out of the batch"
    elif weights.shape[2:] == expected[::-1]:
        advice = "exchange the last two axes"
    raise InputError(
        f"{site}: expected shape (layers, heads, {expected[0]} {query} tokens, {expected[1]} {key} tokens), found "
        f"{weights.shape}; {advice}"
    )


def _check_values(site: str, weights: np.ndarray, partial_rows: bool) -> None:
    for layer, of_layer in enumerate(weights):
        place = f"{site}, layer {layer}"
        if not np.isfinite(of_layer).all():
            raise InputError(f"{place}: expected finite numbers, found {of_layer[~np.isfinite(of_layer)][0]}")
        if (of_layer < 0).any():
            raise InputError(
                f"{place}: expected weights after the softmax, from 0 to 1, found {of_layer[of_layer < 0][0]:g}"
            )
        sums = of_layer.sum(axis=-1, dtype=np.float64)
        wrong = sums >= 1 + TOLERANCE if partial_rows else np.abs(sums - 1) >= TOLERANCE
        if wrong.any():
            head, row = np.argwhere(wrong)[0]
            raise InputError(
                f"{place}, head {head}, row {row}: expected weights that sum to {'at most ' * partial_rows}1, found a "
                f"sum of {sums[head, row]:.4g}; give weights after the softmax and before dropout"
                + ("" if partial_rows else ", or partial_rows=True where rows divide their weight with other keys")
            )

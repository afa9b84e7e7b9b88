"""What an attention head does, in one number each: how sharp, how sure, how much on EOS, how diagonal.

Every measure is taken per row, then averaged over the rows of one layer and head. Heads are never averaged before a
measure is taken: the mean of sharp heads that look at different places is flat. The numbers describe weights; they do
not say why the model wrote what it wrote.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pipeline.inspection.record import SITE_AXES, Record


def measure(attention: np.ndarray, eos_column: int | None) -> dict[str, np.ndarray]:
    """Measures every layer and head of one sentence.

    Args:
        attention: `(L, H, T, S)` weights, T rows of queries over S keys.
        eos_column: the key that is the source's EOS, or None where there is none.

    Returns:
        `(L, H)` float64 arrays, each a mean over the T rows:
        `entropy`: of the row, in nats, 0 to log S.
        `relative_entropy`: entropy / log S, 0 to 1; 0 for a single key. S counts every key, also those that a causal
            mask hides, so compare it within one site only.
        `confidence`: the largest weight of the row (Voita et al. 2019, who leave EOS out; here it counts).
        `eos_share`: weight on the EOS column; not-a-number where there is none.
        `diagonality`: sum over keys of weight * (1 - |t / (T - 1) - s / (S - 1)|), the closeness of query and key where
            both sentences run from 0 to 1; a sentence of one token lies at 0.5. 1 is a perfect diagonal; uniform
            weights on long sentences give 2/3.

    Raises:
        ValueError: not four axes, or no rows or keys.
    """
    if attention.ndim != 4 or 0 in attention.shape[2:]:
        raise ValueError(f"attention must have shape (layer, head, T > 0, S > 0). Received: {attention.shape}")
    weights = attention.astype(np.float64)
    T, S = weights.shape[2:]
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy = -(weights * logarithms).sum(axis=-1).mean(axis=-1) + 0.0  # + 0.0 turns -0.0 into 0.0
    closeness = 1 - np.abs(_positions(T)[:, None] - _positions(S))
    return {
        "entropy": entropy,
        "relative_entropy": entropy / np.log(S) if S > 1 else np.zeros_like(entropy),
        "confidence": weights.max(axis=-1).mean(axis=-1),
        "eos_share": np.full(entropy.shape, np.nan) if eos_column is None else weights[..., eos_column].mean(axis=-1),
        "diagonality": np.einsum("lhts,ts->lh", weights, closeness) / T,
    }


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """The measures of every layer and head over a set of sentences.

    Each measure is taken per row, then averaged over all rows of all sentences, so that a long sentence counts for its
    length; layers and heads stay apart.

    Args:
        records: sentences with the same layers and heads.
        site: `cross`, `encoder` or `decoder`. The last has no EOS among its keys, so its `eos_share` is not-a-number.

    Returns:
        One row per layer and head with the columns `site`, `layer`, `head`, `entropy`, `relative_entropy`,
        `confidence`, `eos_share`, `diagonality`; empty without records.
    """
    names = ["entropy", "relative_entropy", "confidence", "eos_share", "diagonality"]
    totals, rows = np.zeros((len(names), 0, 0)), 0
    for record in records:
        weights = record.attention[site]
        measures = measure(weights, _eos_column(record, site))
        total = np.stack([measures[name] for name in names]) * weights.shape[2]
        totals = totals + total if rows else total
        rows += weights.shape[2]
    _, layers, heads = totals.shape
    layer, head = np.indices((layers, heads)).reshape(2, -1)
    columns = {name: total.reshape(-1) / max(rows, 1) for name, total in zip(names, totals, strict=True)}
    return pd.DataFrame({"site": site, "layer": layer, "head": head, **columns})


def _eos_column(record: Record, site: str) -> int | None:
    if SITE_AXES[site][1] != "source" or record.source_words[-1] is not None:
        return None
    return len(record.source_tokens) - 1


def _positions(length: int) -> np.ndarray:
    return np.linspace(0, 1, length) if length > 1 else np.array([0.5])

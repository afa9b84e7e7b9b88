"""What an attention head does, in one number each: how sharp, how sure, how diagonal, how much on EOS, how like others.

Every measure is taken per row, then averaged over the rows of one layer and head. Heads are never averaged before a
measure is taken: the mean of sharp heads that look at different places is flat. The numbers describe weights; they do
not say why the model wrote what it wrote.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from .record import SITE_AXES, Record

MEASURES = (
    "entropy",
    "relative_entropy",
    "confidence",
    "diagonality",
    "agreement",
    "eos_share",
    "bos_share",
    "punctuation_share",
)
"""What `measure_site` finds, in the order of the tables."""


def measure(attention: np.ndarray, groups: Mapping[str, Sequence[int] | None] | None = None) -> dict[str, np.ndarray]:
    """Measures every layer and head of one sentence.

    Args:
        attention: `(L, H, T, S)` weights, T rows of queries over S keys.
        groups: by name, keys whose share is asked for; None where the sentence has no such thing.

    Returns:
        `(L, H)` float64 arrays, each a mean over the T rows:
        `entropy`: of the row, in nats, 0 to log S.
        `relative_entropy`: entropy / log S, 0 to 1; 0 for a single key. S counts every key, also those that a causal
            mask hides, so compare it within one site only.
        `confidence`: the largest weight of the row (Voita et al. 2019, who leave EOS out; here it counts).
        `diagonality`: sum over keys of weight * (1 - |t / (T - 1) - s / (S - 1)|), the closeness of query and key where
            both sentences run from 0 to 1; a sentence of one token lies at 0.5. 1 is a perfect diagonal; uniform
            weights on long sentences give 2/3.
        `agreement`: sum over keys of min(weight, another head's weight), averaged over the layer's other heads: 1 for
            heads that do the same, 0 for heads that look elsewhere; not-a-number where a layer has one head.
        `NAME_share` for each of `groups`: weight on those keys; not-a-number where there are none.

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
    shares = {
        f"{name}_share": np.full(entropy.shape, np.nan) if keys is None else weights[..., keys].sum(-1).mean(-1)
        for name, keys in (groups or {}).items()
    }
    return {
        "entropy": entropy,
        "relative_entropy": entropy / np.log(S) if S > 1 else np.zeros_like(entropy),
        "confidence": weights.max(axis=-1).mean(axis=-1),
        "diagonality": np.einsum("lhts,ts->lh", weights, closeness) / T,
        "agreement": _agreement(weights),
        **shares,
    }


def measure_site(record: Record, site: str = "cross") -> dict[str, np.ndarray]:
    """The measures of one site of a sentence, with the shares of `eos`, `bos` and `punctuation` among its keys.

    The source ends in EOS and has no BOS; the decoder's keys start with BOS and have no EOS.
    """
    tokens = record.source_tokens if SITE_AXES[site][1] == "source" else record.target_input_tokens
    ends = SITE_AXES[site][1] == "source" and record.source_words[-1] is None
    groups = {
        "eos": [len(tokens) - 1] if ends else None,
        "bos": [0] if SITE_AXES[site][1] == "target" else None,
        "punctuation": [i for i, token in enumerate(tokens) if is_punctuation(token)],
    }
    return measure(record.attention[site], groups)


class HeadsMeter:
    """The measures of every layer and head over a set of sentences with the same layers and heads.

    Each measure is taken per row, then averaged over all rows of all sentences, so that a long sentence counts for its
    length; layers and heads stay apart.

    Args:
        site: any that the records hold.
    """

    def __init__(self, site: str = "cross") -> None:
        self.site = site
        self.rows = 0
        self.totals: dict[str, np.ndarray] = {}

    def add(self, record: Record, measures: Mapping[str, np.ndarray]) -> None:
        """Takes in a sentence and what `measure_site` found in it."""
        length = record.attention[self.site].shape[2]
        self.totals = {name: self.totals.get(name, 0.0) + value * length for name, value in measures.items()}
        self.rows += length

    def table(self) -> pd.DataFrame:
        """One row per layer and head: `site`, `layer`, `head` and `MEASURES`; no row without sentences."""
        layers, heads = self.totals["entropy"].shape if self.totals else (0, 0)
        layer, head = np.indices((layers, heads)).reshape(2, -1)
        columns = {name: self.totals[name].reshape(-1) / self.rows if self.rows else np.zeros(0) for name in MEASURES}
        return pd.DataFrame({"site": self.site, "layer": layer, "head": head, **columns})


def heads_table(records: Iterable[Record], site: str = "cross") -> pd.DataFrame:
    """The table of `HeadsMeter` over these records."""
    meter = HeadsMeter(site)
    for record in records:
        meter.add(record, measure_site(record, site))
    return meter.table()


def is_punctuation(token: str) -> bool:
    """Whether a token is made of punctuation marks alone (Unicode's categories P)."""
    text = token.replace("\u2581", "")  # SentencePiece's mark for the space before a word
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def _agreement(weights: np.ndarray) -> np.ndarray:
    heads = weights.shape[1]
    if heads <= 1:
        return np.full(weights.shape[:2], np.nan)
    shared = np.minimum(weights[:, :, None], weights[:, None]).sum(axis=-1).mean(axis=-1)  # (L, H, H)
    own = np.einsum("lhh->lh", shared)
    return (shared.sum(axis=-1) - own) / (heads - 1)


def _positions(length: int) -> np.ndarray:
    return np.linspace(0, 1, length) if length > 1 else np.array([0.5])

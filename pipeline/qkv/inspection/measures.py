"""Measures of an attention head, and of the cross-attention of a sentence: how sharp, how confident, how diagonal, how
much on EOS, how similar to other heads. Each row of `MEASURES` is a column of heads.csv and sentences.csv and, if it
says so, an order of sentences in the viewer's page and a curve in TensorBoard.

Every measure is taken per attention row, then averaged over the rows of one layer and head. Heads are never averaged
before a measure is taken: the mean of sharp heads that look at different places is flat. Only coverage is read from the
mean over all layers and heads. The numbers describe weights; they do not say why the model wrote what it wrote.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..config.names.inspection import SITES
from .record import Record


@dataclass(frozen=True)
class SiteWeights:
    """The attention of one site of a sentence, as measures take it.

    Args:
        weights: float64 `(L, H, T, S)`, T rows of queries over S keys.
        keys: groups of keys (`eos`, `bos`, `punctuation`) by their positions; None where the sentence has none.
        sinks: `(L, H, T)`, the share of each row that went to no key; None without a sink.
    """

    weights: np.ndarray
    keys: Mapping[str, Sequence[int] | None] = field(default_factory=dict)
    sinks: np.ndarray | None = None

    @cached_property
    def entropy(self) -> np.ndarray:
        """Entropy of the rows in nats, `(L, H)`."""
        logarithms = np.log(self.weights, out=np.zeros_like(self.weights), where=self.weights > 0)
        return -(self.weights * logarithms).sum(axis=-1).mean(axis=-1) + 0.0  # + 0.0 turns -0.0 into 0.0

    def share(self, group: str) -> np.ndarray:
        """Computes the weight on a group of keys, `(L, H)`; not-a-number if the sentence has no such keys."""
        keys = self.keys.get(group)
        if keys is None:
            return np.full(self.weights.shape[:2], np.nan)
        return self.weights[..., keys].sum(-1).mean(-1)


def sink_share(site: SiteWeights) -> np.ndarray:
    """Averages the share of the rows that went to no key, `(L, H)`; not-a-number without a sink."""
    return np.full(site.weights.shape[:2], np.nan) if site.sinks is None else site.sinks.mean(axis=-1)


def relative_entropy(site: SiteWeights) -> np.ndarray:
    """Computes entropy / log S, from 0 to 1; 0 for a single key.

    S counts every key, also those that a causal mask hides, so compare it within one site only.
    """
    keys = site.weights.shape[-1]
    return site.entropy / np.log(keys) if keys > 1 else np.zeros_like(site.entropy)


def confidence(site: SiteWeights) -> np.ndarray:
    """Computes the largest weight of each row (Voita et al. 2019, who leave EOS out; here it counts)."""
    return site.weights.max(axis=-1).mean(axis=-1)


def diagonality(site: SiteWeights) -> np.ndarray:
    """Sums weight * (1 - |t / (T - 1) - s / (S - 1)|) over the keys: closeness to the diagonal, if both sentences run
    from 0 to 1.

    A sentence of one token lies at 0.5. 1 is a perfect diagonal; uniform weights on long sentences give 2/3.
    """
    T, S = site.weights.shape[2:]
    closeness = 1 - np.abs(_positions(T)[:, None] - _positions(S))
    return np.einsum("lhts,ts->lh", site.weights, closeness) / T


def agreement(site: SiteWeights) -> np.ndarray:
    """Sums min(weight, another head's weight) over the keys, averaged over the layer's other heads.

    1 for heads that do the same, 0 for heads that look elsewhere; not-a-number where a layer has one head.
    """
    heads = site.weights.shape[1]
    if heads <= 1:
        return np.full(site.weights.shape[:2], np.nan)
    shared = np.minimum(site.weights[:, :, None], site.weights[:, None]).sum(axis=-1).mean(axis=-1)  # (L, H, H)
    with_itself = np.einsum("lhh->lh", shared)
    return (shared.sum(axis=-1) - with_itself) / (heads - 1)


@dataclass(frozen=True, kw_only=True)
class PageLabels:
    """The labels of a sentence's number in the viewer's page; an empty label hides it.

    Args:
        note: its name beside each sentence of the list.
        lowest_first: the order of sentences from the lowest on.
        highest_first: the order of sentences from the highest on.
    """

    note: str = ""
    lowest_first: str = ""
    highest_first: str = ""


@dataclass(frozen=True, kw_only=True)
class Measure(PageLabels):
    """A measure of attention heads.

    Args:
        function: takes the attention of one site of a sentence and returns `(L, H)`, each a mean over the rows.
        in_tensorboard: whether TensorBoard shows its mean over the heads of each layer.
    """

    function: Callable[[SiteWeights], np.ndarray]
    in_tensorboard: bool = False


MEASURES = {
    "entropy": Measure(
        function=lambda site: site.entropy,  # 0 to log S
        note="entropy",
        lowest_first="sharpest attention first",
        highest_first="flattest attention first",
        in_tensorboard=True,
    ),
    "relative_entropy": Measure(function=relative_entropy),
    "confidence": Measure(function=confidence),
    "diagonality": Measure(function=diagonality, in_tensorboard=True),
    "agreement": Measure(function=agreement),
    "eos_share": Measure(
        function=lambda site: site.share("eos"), highest_first="most attention on EOS first", in_tensorboard=True
    ),
    "bos_share": Measure(function=lambda site: site.share("bos")),
    "punctuation_share": Measure(function=lambda site: site.share("punctuation")),
    "sink_share": Measure(function=sink_share),
}
"""The measures by name, in the order of the tables' columns."""


def measure_site(record: Record, site: str = "cross") -> dict[str, np.ndarray]:
    """Takes every measure of one site of a sentence; not-a-number if a side of it is empty.

    The source ends in EOS and has no BOS; the decoder's keys start with BOS and have no EOS.
    """
    keys_of_source = SITES[site].axes[1] == "source"
    tokens = record.source_tokens if keys_of_source else record.target_input_tokens
    has_eos = keys_of_source and record.source_words[-1] is None
    keys = {
        "eos": [len(tokens) - 1] if has_eos else None,
        "bos": None if keys_of_source else [0],
        "punctuation": [i for i, token in enumerate(tokens) if is_punctuation(token)],
    }
    weights = SiteWeights(record.attention[site].astype(np.float64), keys, record.sinks.get(site))
    measures = {name: row.function(weights) for name, row in MEASURES.items()}
    if record.has_empty_side:
        return {name: np.full_like(found, np.nan) for name, found in measures.items()}
    return measures


def is_punctuation(token: str) -> bool:
    """Returns whether a token consists of punctuation marks alone (Unicode's categories P)."""
    # Without the marks that are letters or symbols; ## and @@ are punctuation themselves.
    text = token.replace("\u2581", "").removeprefix("\u0120").removesuffix("</w>")
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def _positions(length: int) -> np.ndarray:
    return np.linspace(0, 1, length) if length > 1 else np.array([0.5])


UNDER, OVER = 0.2, 3.0
"""A word counts as under-attended below 0.2 of its fair share, as over-attended above 3 times its fair share."""


def coverage(record: Record) -> np.ndarray:
    """Computes the attention that each source token got from all rows together, as a multiple of its fair share T / S.

    Weights are the mean over all layers and heads; `(S,)`, not-a-number without any and if a side is empty. Tu et al.
    2016 call the sum coverage; divided by the fair share it can be compared between sentences.
    """
    weights = record.attention["cross"]
    if not weights.size or record.has_empty_side:
        return np.full(len(record.source_tokens), np.nan)
    return weights.mean(axis=(0, 1), dtype=np.float64).mean(axis=0) * weights.shape[-1]


def sentence_row(record: Record, measures: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Makes the row of one sentence in `sentences.csv`, from the measures of its cross-attention by `measure_site`.

    Returns:
        `id`, `mode`, `truncated`, `source_tokens`, `target_tokens`;
        `mean_log_probability` of the target's tokens, `least_log_probability` and the token that has it
            (`least_likely_token`);
        each of `MEASURES`, the mean over layers and heads; not-a-number where a site has no such keys;
        `least_coverage`;
        `under_attended`, `over_attended`: the source words with less than `UNDER` or more than `OVER` of their fair
            share of the attention, separated by spaces.
        What is measured of the attention is not-a-number, or no word, if a side is empty.
    """
    likelihoods = record.token_log_probabilities
    least = int(np.argmin(likelihoods)) if likelihoods else None
    covered = coverage(record)
    of_words = [covered[i] for i, word in enumerate(record.source_words) if word is not None]
    return {
        "id": record.id,
        "mode": record.mode,
        "truncated": record.truncated,
        "source_tokens": len(record.source_tokens),
        "target_tokens": len(record.target_output_tokens),
        "mean_log_probability": float(np.mean(likelihoods)) if likelihoods else math.nan,
        "least_log_probability": likelihoods[least] if least is not None else math.nan,
        "least_likely_token": record.target_output_tokens[least] if least is not None else "",
        **{name: float(measures[name].mean()) if measures[name].size else math.nan for name in MEASURES},
        "least_coverage": float(min(of_words, default=math.nan)),
        "under_attended": " ".join(_words(record, covered < UNDER)),
        "over_attended": " ".join(_words(record, covered > OVER)),
    }


def under_attended_words(record: Record) -> list[int]:
    """Returns the places of the source words all of whose tokens got less than `UNDER` of their fair share."""
    return _marked_words(record, coverage(record) < UNDER)


def _words(record: Record, tokens: np.ndarray) -> list[str]:
    spelling = record.spell_source_words()
    return [spelling[word] for word in _marked_words(record, tokens) if spelling.get(word)]


def _marked_words(record: Record, tokens: np.ndarray) -> list[int]:
    others = {word for word, is_marked in zip(record.source_words, tokens, strict=True) if not is_marked}
    return [word for word in dict.fromkeys(record.source_words) if word is not None and word not in others]

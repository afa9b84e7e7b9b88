"""Measures of attention heads, such as entropy, diagonality and the weight on EOS, and the rows of sentences.csv.

Each row of `MEASURES` is a column of heads.csv and sentences.csv. A row says whether the viewer's page shows it or
sorts sentences by it, and whether it is a curve in TensorBoard.

A measure is computed for each attention row, then averaged over the rows of a layer and head. Weights are not averaged
over heads first: the mean of sharp heads that attend to different tokens is flat. Only coverage is computed from the
mean over all layers and heads. The measures describe weights; they do not explain the model's output.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..config.choices.inspection import SITES
from .record import Record


@dataclass(frozen=True)
class SiteWeights:
    """The attention of one site of a sentence, the argument of measures.

    Args:
        weights: the weights of T queries on S keys in L layers and H heads, float64 `(L, H, T, S)`.
        keys: the positions of the keys in the groups `eos`, `bos` and `punctuation`. None if the site has no such key.
        sinks: the weight of each row that went to the sink instead of a key, `(L, H, T)`. None without a sink.
    """

    weights: np.ndarray
    keys: Mapping[str, Sequence[int] | None] = field(default_factory=dict)
    sinks: np.ndarray | None = None

    @cached_property
    def entropy(self) -> np.ndarray:
        """The entropy of the rows in nats, a mean over the rows, `(L, H)`."""
        logarithms = np.log(self.weights, out=np.zeros_like(self.weights), where=self.weights > 0)
        return -(self.weights * logarithms).sum(axis=-1).mean(axis=-1) + 0.0  # + 0.0 turns -0.0 into 0.0

    def share(self, group: str) -> np.ndarray:
        """Computes the weight on a group of keys, a mean over the rows, `(L, H)`; NaN if `keys[group]` is None."""
        keys = self.keys.get(group)
        if keys is None:
            return np.full(self.weights.shape[:2], np.nan)
        return self.weights[..., keys].sum(-1).mean(-1)


def sink_share(site: SiteWeights) -> np.ndarray:
    """Computes the weight on the sink instead of a key, a mean over the rows, `(L, H)`; NaN without a sink."""
    return np.full(site.weights.shape[:2], np.nan) if site.sinks is None else site.sinks.mean(axis=-1)


def relative_entropy(site: SiteWeights) -> np.ndarray:
    """Computes entropy / log S, from 0 to 1, `(L, H)`; 0 for a single key.

    S counts all keys, including those that a causal mask hides, so compare this measure only within a site.
    """
    keys = site.weights.shape[-1]
    return site.entropy / np.log(keys) if keys > 1 else np.zeros_like(site.entropy)


def confidence(site: SiteWeights) -> np.ndarray:
    """Computes the largest weight of a row, a mean over the rows, `(L, H)`.

    Voita et al. 2019 leave EOS out; here it counts.
    """
    return site.weights.max(axis=-1).mean(axis=-1)


def diagonality(site: SiteWeights) -> np.ndarray:
    """Computes the closeness of the weights to the diagonal, from 0 to 1, a mean over the rows, `(L, H)`.

    It is the sum over keys of weight * (1 - |t / (T - 1) - s / (S - 1)|). The only token of a sentence is put at 0.5. A
    perfect diagonal gives 1, and uniform weights on long sentences give 2/3.
    """
    T, S = site.weights.shape[2:]
    closeness = 1 - np.abs(_positions(T)[:, None] - _positions(S))
    return np.einsum("lhts,ts->lh", site.weights, closeness) / T


def agreement(site: SiteWeights) -> np.ndarray:
    """Computes the overlap with the other heads of the layer, from 0 to 1, a mean over heads and rows, `(L, H)`.

    The overlap of two rows is the sum of the smaller weight of each key: 1 if the rows are equal, 0 if they attend to
    different keys. NaN if the layer has one head.
    """
    heads = site.weights.shape[1]
    if heads <= 1:
        return np.full(site.weights.shape[:2], np.nan)
    overlap = np.minimum(site.weights[:, :, None], site.weights[:, None]).sum(axis=-1).mean(axis=-1)  # (L, H, H)
    with_itself = np.einsum("lhh->lh", overlap)
    return (overlap.sum(axis=-1) - with_itself) / (heads - 1)


@dataclass(frozen=True, kw_only=True)
class OnPage:
    """The places of a measure in the viewer's page: a label, or True if `viewer/words.csv` has the label.

    Args:
        note: the label of the value beside each sentence of the list.
        lowest_first: the label of the order of sentences by ascending values.
        highest_first: the label of the order of sentences by descending values.
    """

    note: bool | str = False
    lowest_first: bool | str = False
    highest_first: bool | str = False


@dataclass(frozen=True, kw_only=True)
class Measure(OnPage):
    """A measure of attention heads.

    Args:
        function: a function of the attention of one site of a sentence that returns means over the rows, `(L, H)`.
        in_tensorboard: if True, TensorBoard shows the mean over the heads of each layer.
    """

    function: Callable[[SiteWeights], np.ndarray]
    in_tensorboard: bool = False


MEASURES = {
    "entropy": Measure(
        function=lambda site: site.entropy,  # 0 to log S
        note=True,
        lowest_first=True,
        highest_first=True,
        in_tensorboard=True,
    ),
    "relative_entropy": Measure(function=relative_entropy),
    "confidence": Measure(function=confidence),
    "diagonality": Measure(function=diagonality, in_tensorboard=True),
    "agreement": Measure(function=agreement),
    "eos_share": Measure(function=lambda site: site.share("eos"), highest_first=True, in_tensorboard=True),
    "bos_share": Measure(function=lambda site: site.share("bos")),
    "punctuation_share": Measure(function=lambda site: site.share("punctuation")),
    "sink_share": Measure(function=sink_share),
}
"""The measures by name, in the order of the tables' columns."""


def measure_site(record: Record, site: str = "cross") -> dict[str, np.ndarray]:
    """Computes all `MEASURES` of one site of a sentence.

    If the keys are source tokens, the last token counts as EOS unless it belongs to a word, and there is no BOS. If the
    keys are target tokens, the first token is BOS, and there is no EOS.

    Returns:
        The measures by name, `(L, H)` each; NaN if a side of the sentence is empty.
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
        return {name: np.full_like(values, np.nan) for name, values in measures.items()}
    return measures


@lru_cache(maxsize=65536)  # sentences have the same tokens
def is_punctuation(token: str) -> bool:
    """Returns True if a token consists of punctuation only (Unicode's categories P), apart from word marks."""
    # These word marks are letters or symbols; ## and @@ are punctuation themselves.
    text = token.replace("\u2581", "").removeprefix("\u0120").removesuffix("</w>")
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def _positions(length: int) -> np.ndarray:
    return np.linspace(0, 1, length) if length > 1 else np.array([0.5])


UNDER = 0.2
"""A token is under-attended if its coverage is below this multiple of its fair share."""

OVER = 3.0
"""A token is over-attended if its coverage is above this multiple of its fair share."""


def coverage(record: Record) -> np.ndarray:
    """Computes the sum of each source token's weights over all rows, as a multiple of its fair share T / S.

    The weights are means over all layers and heads of the cross-attention. Tu et al. 2016 call the sum coverage;
    divided by the fair share, it can be compared between sentences.

    Returns:
        float64 `(S,)`; NaN if the record has no weights or a side is empty.
    """
    weights = record.attention["cross"]
    if not weights.size or record.has_empty_side:
        return np.full(len(record.source_tokens), np.nan)
    return weights.mean(axis=(0, 1), dtype=np.float64).mean(axis=0) * weights.shape[-1]


def sentence_row(record: Record, measures: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Makes the row of a sentence in `sentences.csv`.

    Args:
        record: the sentence.
        measures: the measures of its cross-attention, by `measure_site`.

    Returns:
        These columns:

        - id, mode, truncated: fields of the record.
        - source_tokens, target_tokens: the numbers of tokens, with EOS.
        - mean_log_probability: the mean over the target tokens; NaN if log-probabilities are unknown.
        - least_log_probability, least_likely_token: the lowest log-probability, and the token that has it; NaN and ""
          if log-probabilities are unknown.
        - each of `MEASURES`: the mean over layers and heads; NaN if the measure is NaN.
        - least_coverage: the lowest `coverage` of a token that belongs to a word; NaN if a side is empty.
        - under_attended, over_attended: the source words whose tokens all have a coverage below `UNDER` or above
          `OVER`, separated by spaces; "" if a side is empty.
    """
    log_probabilities = record.token_log_probabilities
    least = int(np.argmin(log_probabilities)) if log_probabilities else None
    token_coverage = coverage(record)
    word_coverage = [token_coverage[i] for i, word in enumerate(record.source_words) if word is not None]
    return {
        "id": record.id,
        "mode": record.mode,
        "truncated": record.truncated,
        "source_tokens": len(record.source_tokens),
        "target_tokens": len(record.target_output_tokens),
        "mean_log_probability": float(np.mean(log_probabilities)) if log_probabilities else math.nan,
        "least_log_probability": log_probabilities[least] if least is not None else math.nan,
        "least_likely_token": record.target_output_tokens[least] if least is not None else "",
        **{name: float(measures[name].mean()) if measures[name].size else math.nan for name in MEASURES},
        "least_coverage": float(min(word_coverage, default=math.nan)),
        "under_attended": " ".join(_spell_words(record, token_coverage < UNDER)),
        "over_attended": " ".join(_spell_words(record, token_coverage > OVER)),
    }


def under_attended_words(record: Record) -> list[int]:
    """Returns the indices of the source words whose tokens all have a `coverage` below `UNDER`."""
    return _marked_words(record, coverage(record) < UNDER)


def _spell_words(record: Record, is_marked: np.ndarray) -> list[str]:
    """Returns the text of the source words whose tokens are all marked, by bool `(S,)`."""
    spelling = record.spell_source_words()
    return [spelling[word] for word in _marked_words(record, is_marked) if spelling.get(word)]


def _marked_words(record: Record, is_marked: np.ndarray) -> list[int]:
    """Returns the indices of the source words whose tokens are all marked, by bool `(S,)`."""
    unmarked = {word for word, marked in zip(record.source_words, is_marked, strict=True) if not marked}
    return [word for word in dict.fromkeys(record.source_words) if word is not None and word not in unmarked]

"""Measures of the cross-attention in each sentence: a row of numbers by which to sort and search.

Heads are measured one by one and then averaged; coverage is read from the mean over all layers and heads. The numbers
describe weights; they do not say why the model wrote what it wrote.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .measures import MEASURES, PageLabels
from .record import Record

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


def least_coverage(record: Record, covered: np.ndarray) -> float:
    """Returns the smallest coverage of the tokens that belong to source words; not-a-number if there are none."""
    words = [i for i, word in enumerate(record.source_words) if word is not None]
    return float(covered[words].min()) if words else math.nan


@dataclass(frozen=True, kw_only=True)
class SentenceMeasure(PageLabels):
    """A measure of whole sentences.

    Args:
        function: takes a sentence and the `coverage` of its tokens.
    """

    function: Callable[[Record, np.ndarray], float]


SENTENCE_MEASURES = {
    "least_coverage": SentenceMeasure(function=least_coverage, lowest_first="least covered source first"),
}
"""The measures of sentences that are not means over heads; `MEASURES` are."""


def sentence_row(record: Record, measures: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Makes the row of one sentence in `sentences.csv`.

    Args:
        record: the sentence.
        measures: those of its cross-attention, which `measure_site` took.

    Returns:
        `id`, `mode`, `truncated`, `source_tokens`, `target_tokens`;
        `mean_log_probability` of the target's tokens, `least_log_probability` and the token that has it
            (`least_likely_token`);
        each of `MEASURES`, the mean over layers and heads; not-a-number where a site has no such keys;
        each of `SENTENCE_MEASURES`;
        `under_attended`, `over_attended`: the source words with less than `UNDER` or more than `OVER` of their fair
            share of the attention, separated by spaces.
        What is measured of the attention is not-a-number, or no word, if a side is empty.
    """
    likelihoods = record.token_log_probabilities
    least = int(np.argmin(likelihoods)) if likelihoods else None
    covered = coverage(record)
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
        **{name: row.function(record, covered) for name, row in SENTENCE_MEASURES.items()},
        "under_attended": " ".join(_words(record, covered < UNDER)),
        "over_attended": " ".join(_words(record, covered > OVER)),
    }


def under_attended_words(record: Record) -> list[int]:
    """Returns the places of the source words all of whose tokens got less than `UNDER` of their fair share."""
    return _marked_words(record, coverage(record) < UNDER)


def _words(record: Record, tokens: np.ndarray) -> list[str]:
    """Returns the text of the source words all of whose tokens are marked."""
    spelling = record.spell_source_words()
    return [spelling[word] for word in _marked_words(record, tokens) if spelling.get(word)]


def _marked_words(record: Record, tokens: np.ndarray) -> list[int]:
    marked: dict[int, bool] = {}
    for word, token in zip(record.source_words, tokens, strict=True):
        if word is not None:
            marked[word] = marked.get(word, True) and bool(token)
    return [word for word, all_marked in marked.items() if all_marked]

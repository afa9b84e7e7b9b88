"""What the cross-attention did in each sentence: a row of numbers for each, to sort and to search by.

Heads are measured one by one and then averaged; coverage is read from the mean over all layers and heads. The numbers
describe weights; they do not say why the model wrote what it wrote.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .measures import MEASURES
from .record import Record

UNDER, OVER = 0.2, 3.0
"""A word counts as under-attended below so much of its fair share, as over-attended above so much of it."""


def sentence_row(record: Record, measured: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The row of one sentence in `sentences.csv`.

    Args:
        record: the sentence.
        measured: what `measure_site` found in its cross-attention.

    Returns:
        `id`, `mode`, `truncated`, `source_tokens`, `target_tokens`;
        `mean_log_probability` of the target's tokens, `least_log_probability` and the token that has it
            (`least_likely_token`);
        each of `MEASURES`, the mean over layers and heads; not-a-number where a site has no such thing;
        `least_coverage`: of all tokens of source words the least `coverage`;
        `under_attended`, `over_attended`: the source words with less than `UNDER` or more than `OVER` of their fair
            share of the attention, separated by spaces.
    """
    likelihoods = record.token_log_probabilities
    least = int(np.argmin(likelihoods)) if likelihoods else None
    covered = coverage(record)
    words = [i for i, word in enumerate(record.source_words) if word is not None]
    return {
        "id": record.id,
        "mode": record.mode,
        "truncated": record.truncated,
        "source_tokens": len(record.source_tokens),
        "target_tokens": len(record.target_output_tokens),
        "mean_log_probability": float(np.mean(likelihoods)) if likelihoods else math.nan,
        "least_log_probability": likelihoods[least] if least is not None else math.nan,
        "least_likely_token": record.target_output_tokens[least] if least is not None else "",
        **{name: float(measured[name].mean()) if measured[name].size else math.nan for name in MEASURES},
        "least_coverage": float(covered[words].min()) if words else math.nan,
        "under_attended": " ".join(_words(record, covered < UNDER)),
        "over_attended": " ".join(_words(record, covered > OVER)),
    }


def coverage(record: Record) -> np.ndarray:
    """The attention that each source token got from all rows together, as a multiple of its fair share T / S.

    Where weights are the mean over all layers and heads; `(S,)`, not-a-number without any. Tu et al. 2016 call the sum
    coverage; divided by the fair share it can be compared between sentences.
    """
    weights = record.attention["cross"]
    if not weights.size:
        return np.full(len(record.source_tokens), np.nan)
    return weights.mean(axis=(0, 1), dtype=np.float64).mean(axis=0) * weights.shape[-1]


def _words(record: Record, tokens: np.ndarray) -> list[str]:
    """The source words all of whose tokens are among those marked."""
    marked: dict[int, bool] = {}
    for word, token in zip(record.source_words, tokens, strict=True):
        if word is not None:
            marked[word] = marked.get(word, True) and bool(token)
    spelling = [word for word in record.source.split(" ") if word]
    return [spelling[word] for word, all_marked in marked.items() if all_marked and word < len(spelling)]

"""Confidence intervals of measures over a set of sentences and several seeds, by drawing both anew (Efron 1979).

A measure is a ratio of sums over sentences, as an alignment error rate or a mean over tokens is: sentences are what was
drawn from a language, so they are what is drawn again, and long ones count by their length.

Another seed gives another model, so what holds of the models that were trained need not hold of the way to train them.
All seeds are measured on the same sentences, so two levels cross: other sentences, and other seeds.

Letters: N sentences, B bootstrap samples, K seeds.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

SAMPLES = 1000
HELD = 10_000_000
"""How many counts of sentences are held at once."""


def sentence_counts(sentences: int, *, samples: int = SAMPLES, seed: int = 0) -> np.ndarray:
    """Draws N sentences with replacement, B times.

    Returns:
        How often each sentence was drawn, float64 `(B, N)`; the same for the same arguments, so that systems which are
        resampled with the same counts are compared pair by pair.
    """
    shares = np.full(sentences, 1 / max(sentences, 1))
    return np.random.default_rng(seed).multinomial(sentences, shares, size=samples).astype(np.float64)


def ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Computes the measure of the whole set, the ratio of the sums over the first axis; not-a-number for 0 / 0.

    Args:
        numerators: what each sentence adds above, `(N, ...)`; 0 where it has nothing to measure.
        denominators: what it adds below, of the same shape; 0 there, too.
    """
    return _divide(numerators.sum(axis=0), denominators.sum(axis=0))


def resample(numerators: np.ndarray, denominators: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes `ratio` in each bootstrap sample, `(B, ...)`, by the counts `(B, N)` of `sentence_counts`."""
    return _divide(np.tensordot(counts, numerators, axes=1), np.tensordot(counts, denominators, axes=1))


def interval(resampled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % percentile interval of bootstrap samples, its lower and its upper end, each of shape `(...)`.

    Args:
        resampled: of `resample`, `(B, ...)`; or a difference of two of the same counts.
    """
    tail = (1 - 0.95) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail], axis=0)
    return low, high


def ratio_interval(numerators: np.ndarray, denominators: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % interval of `ratio`, its ends each of shape `(...)`; not-a-number where the ratio is."""
    known = ~np.isnan(ratio(numerators, denominators))
    low, high = np.full((2, *known.shape), np.nan)
    if known.any():
        above, below = numerators[:, known], denominators[:, known]
        parts = (resample(above, below, counts) for counts in _parts_of_counts(len(above)))
        low[known], high[known] = interval(np.concatenate(list(parts)))
    return low, high


def _parts_of_counts(sentences: int) -> Iterable[np.ndarray]:
    """Returns `sentence_counts` in parts."""
    parts = parts_of_samples(SAMPLES, sentences)
    if len(parts) == 1:
        return [_counts(sentences)]
    random = np.random.default_rng(0)
    shares = np.full(sentences, 1 / sentences)
    return (random.multinomial(sentences, shares, size=part).astype(np.float64) for part in parts)


_counts = lru_cache(maxsize=1)(sentence_counts)  # a set may have a hundred measures


def parts_of_samples(samples: int, sentences: int) -> list[int]:
    """Divides samples into parts of at most `HELD` numbers, to keep memory flat: the number of samples of each."""
    part = max(1, HELD // max(sentences, 1))
    return [min(part, samples - first) for first in range(0, samples, part)]


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) != 0)


def draw_over_seeds(drawn: np.ndarray, found: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Draws the mean over all seeds, of which K are known.

    Sentences: the mean of the K on the same drawn sentences, a bootstrap sample. Seeds: few are known, and drawing K of
    K again would give a spread that is too small (by (K - 1) / K, and with tails as if it were known exactly). So the
    deviation of their mean is drawn from Student's t with K - 1 degrees of freedom, times its standard error: scores of
    seeds are taken to be normally distributed, and their spread not to be known (the generalised pivot of Weerahandi
    1993). What a seed does with single sentences is part of both levels, which makes intervals a little too wide.

    Args:
        drawn: `(K, B)`, the measure of each seed on drawn sentences, the same ones for all seeds.
        found: `(K,)`, the measure of each seed on all sentences.
        seed: of the draws; two groups that are compared need different ones.

    Returns:
        `(B,)`; with one seed the sentences' level alone.
    """
    seeds, samples = drawn.shape
    if seeds == 1:
        return drawn[0]
    error = np.std(found, ddof=1) / np.sqrt(seeds)
    return drawn.mean(axis=0) + error * np.random.default_rng(seed).standard_t(seeds - 1, size=samples)


def p_of_samples(difference: np.ndarray) -> float:
    """Returns the two-sided p-value of samples of a difference: twice the share on the rarer side of zero."""
    rarer = min((difference <= 0).sum(), (difference >= 0).sum())
    return float(min(1.0, 2 * (1 + rarer) / (len(difference) + 1)))

"""Bootstrap confidence intervals of measures, over the sentences of a set and over seeds (Efron 1979).

A measure is a ratio of two sums over sentences, such as an alignment error rate or a mean over tokens. Sentences are
resampled, since a test set is a sample of sentences. A long sentence counts by its length.

Another seed gives another model. A result of the trained models need not hold for the training recipe, so seeds are a
second level of sampling. All seeds are measured on the same sentences: the two levels are crossed.

Letters: N sentences, B bootstrap samples, K seeds.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

SAMPLES = 1000
MOST_COUNTS_IN_MEMORY = 10_000_000
"""The maximum number of sentence counts, B times N, that are in memory at once."""


def sentence_counts(sentences: int, *, samples: int = SAMPLES, seed: int = 0) -> np.ndarray:
    """Draws bootstrap samples: N sentences with replacement, B times.

    Equal arguments give equal counts. Two systems that are resampled with the same counts are compared pair by pair.

    Args:
        sentences: N.
        samples: B.
        seed: the seed of the draws.

    Returns:
        The number of times that each sentence was drawn, float64 `(B, N)`.
    """
    shares = np.full(sentences, 1 / max(sentences, 1))
    return np.random.default_rng(seed).multinomial(sentences, shares, size=samples).astype(np.float64)


def ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Computes the measure of the whole set: the sum of the numerators divided by the sum of the denominators.

    Args:
        numerators: a summand of each sentence, `(N, ...)`; 0 if the sentence has nothing to measure.
        denominators: a summand of each sentence, `(N, ...)`; also 0 if the sentence has nothing to measure.

    Returns:
        The ratio `(...)`; NaN if the denominators add up to 0.
    """
    return _divide(numerators.sum(axis=0), denominators.sum(axis=0))


def resample(numerators: np.ndarray, denominators: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes the ratio of each bootstrap sample.

    Args:
        numerators, denominators: the summands of each sentence, `(N, ...)`, see `ratio`.
        counts: the result of `sentence_counts`, `(B, N)`.

    Returns:
        The ratios `(B, ...)`; NaN if the denominators of a sample add up to 0.
    """
    return _divide(np.tensordot(counts, numerators, axes=1), np.tensordot(counts, denominators, axes=1))


def interval(resampled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % percentile interval of bootstrap samples.

    Args:
        resampled: a result of `resample`, `(B, ...)`; or the difference of two results with the same counts.

    Returns:
        `(low, high)`, the ends of the interval, each `(...)`.
    """
    tail = (1 - 0.95) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail], axis=0)
    return low, high


def ratio_interval(numerators: np.ndarray, denominators: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % bootstrap interval of a ratio.

    Args:
        numerators, denominators: the summands of each sentence, `(N, ...)`, see `ratio`.

    Returns:
        `(low, high)`, the ends of the interval, each `(...)`; NaN if the ratio of the whole set is NaN.
    """
    known = ~np.isnan(ratio(numerators, denominators))
    ends = np.full((2, *known.shape), np.nan)
    if known.any():
        numerators = numerators[:, known]
        denominators = denominators[:, known]
        parts = [resample(numerators, denominators, counts) for counts in _parts_of_counts(len(numerators))]
        ends[:, known] = interval(np.concatenate(parts))
    return ends[0], ends[1]


def _parts_of_counts(sentences: int) -> Iterable[np.ndarray]:
    """Returns the arrays of `sentence_counts(sentences)`, divided by samples into parts that fit into memory."""
    parts = parts_of_samples(SAMPLES, sentences)
    if len(parts) == 1:
        return [_counts(sentences)]
    random = np.random.default_rng(0)
    shares = np.full(sentences, 1 / sentences)
    return (random.multinomial(sentences, shares, size=part).astype(np.float64) for part in parts)


_counts = lru_cache(maxsize=1)(sentence_counts)  # a set may have a hundred measures


def parts_of_samples(samples: int, sentences: int) -> list[int]:
    """Divides bootstrap samples into parts, so that the counts of a part fit into memory, see `MOST_COUNTS_IN_MEMORY`.

    Args:
        samples: the number of samples.
        sentences: the number of sentences. A sample has a count for each.

    Returns:
        The number of samples in each part; each number is at least 1.
    """
    part = max(1, MOST_COUNTS_IN_MEMORY // max(sentences, 1))
    return [min(part, samples - first) for first in range(0, samples, part)]


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divides arrays of the same shape. A quotient is NaN if its denominator is 0."""
    quotient = np.full(np.shape(numerator), np.nan)
    return np.divide(numerator, denominator, out=quotient, where=np.asarray(denominator) != 0)


def draw_over_seeds(resampled: np.ndarray, values: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Draws samples of the mean of a measure over all possible seeds, from the K seeds that were trained.

    The level of sentences is the mean of the K seeds on the same resampled sentences. The level of seeds adds a draw
    from Student's t distribution with K - 1 degrees of freedom, times the standard error of the mean. It assumes that
    the scores of seeds are normally distributed with an unknown variance (the generalised pivot of Weerahandi 1993). A
    bootstrap of the seeds is not used: with few seeds its variance is too small by the factor (K - 1) / K, and its
    tails are too light. The effect of a seed on single sentences is part of both levels, so intervals are slightly too
    wide.

    Args:
        resampled: the measure of each seed on resampled sentences, `(K, B)`. The sentences are the same for all seeds.
        values: the measure of each seed on all sentences, `(K,)`.
        seed: the seed of the draws. Two groups that are compared need different seeds.

    Returns:
        The samples, `(B,)`. With K = 1 they have the level of sentences only.
    """
    seeds, samples = resampled.shape
    if seeds == 1:
        return resampled[0]
    standard_error = np.std(values, ddof=1) / np.sqrt(seeds)
    deviations = standard_error * np.random.default_rng(seed).standard_t(seeds - 1, size=samples)
    return resampled.mean(axis=0) + deviations


def p_of_samples(difference: np.ndarray) -> float:
    """Returns the two-sided p-value of a difference: twice the share of its bootstrap samples on the rarer side of 0.

    Args:
        difference: the difference in each sample, `(B,)`.
    """
    rarer = min((difference <= 0).sum(), (difference >= 0).sum())
    return float(min(1.0, 2 * (1 + rarer) / (len(difference) + 1)))

"""Significance tests of two systems on the same sentences, a correction for many tests, and a bound of p-values.

Holm's correction over hundreds of heads needs p-values below 1e-4, and so tens of thousands of random permutations.
The bound needs no random permutation: it follows from the mean and a bound of the variance over all permutations.

Letters: N sentences, B random exchanges, L layers, H heads, T rows, S keys.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .resampling import SAMPLES, interval, parts_of_samples, resample, sentence_counts


def randomisation_p(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], *, samples: int = SAMPLES
) -> np.ndarray:
    """Tests whether two ratios of sums differ, by approximate randomisation (Noreen 1989; Riezler and Maxwell 2005).

    If the systems do not differ, it does not matter which system a result of a sentence came from. So the two results
    of each sentence are exchanged with probability 1/2, B times. The p-value is the share of exchanges whose difference
    is at least as large as the observed difference. Unlike the p-value of a bootstrap, it assumes nothing about the
    distribution of differences, and is not too small for few sentences (Riezler and Maxwell 2005, section 4; Dror et
    al. 2018, section 3.2).

    Args:
        first: `(numerators, denominators)` of the first system, both `(N, ...)`; see `statistics.resampling.ratio`.
        second: the same of the second system, for the same sentences.
        samples: B.

    Returns:
        Two-sided p-values `(...)`, at least 1 / (B + 1); NaN if a ratio is NaN.
    """
    # Stacked: the sentences of the first system, then those of the second. A row of counts picks one of each pair.
    numerators = np.concatenate([first[0], second[0]]).astype(np.float64)
    denominators = np.concatenate([first[1], second[1]]).astype(np.float64)

    def difference(is_kept: np.ndarray) -> np.ndarray:
        mixed_first = resample(numerators, denominators, np.c_[is_kept, 1 - is_kept])
        mixed_second = resample(numerators, denominators, np.c_[1 - is_kept, is_kept])
        return mixed_first - mixed_second

    return p_of_exchanges(difference, len(first[0]), samples=samples)


def p_of_exchanges(difference: Callable[[np.ndarray], np.ndarray], sentences: int, *, samples: int) -> np.ndarray:
    """Tests whether two systems differ in a measure, by approximate randomisation; see `randomisation_p`.

    Args:
        difference: a function that computes the difference of the measure after exchanges. It takes float64 `(B, N)`,
            1 if the results of a sentence are kept and 0 if they are exchanged, and returns `(B, ...)`.
        sentences: N.
        samples: B.

    Returns:
        Two-sided p-values `(...)`, at least 1 / (B + 1); NaN if the observed difference is NaN.
    """
    observed = np.abs(difference(np.ones((1, sentences)))[0])
    random = np.random.default_rng(0)
    as_large = np.zeros(observed.shape, int)
    for part in parts_of_samples(samples, sentences):
        is_kept = random.integers(0, 2, size=(part, sentences)).astype(np.float64)
        # Sums that are equal in theory differ by rounding.
        as_large += (np.abs(difference(is_kept)) >= observed * (1 - 1e-9) - 1e-12).sum(axis=0)
    return np.where(np.isnan(observed), np.nan, (1 + as_large) / (samples + 1))


def difference_interval(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], *, samples: int = SAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % interval of the ratio of `second` minus that of `first`, by a paired bootstrap.

    Args:
        first: `(numerators, denominators)` of the first system, both `(N, ...)`.
        second: the same of the second system, for the same sentences.
        samples: the number of bootstrap samples.

    Returns:
        `(low, high)`, the ends of the interval, each `(...)`.
    """
    counts = sentence_counts(len(first[0]), samples=samples)
    return interval(resample(*second, counts) - resample(*first, counts))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Corrects the p-values of many tests (Holm 1979).

    If the corrected p-values are compared with a level, the probability of one or more false positives is at most that
    level. NaN stays NaN and does not count as a test.

    Args:
        p_values: an array of any shape.

    Returns:
        Corrected p-values of the same shape, at most 1.
    """
    flat = np.asarray(p_values, np.float64).ravel()
    tests = np.flatnonzero(~np.isnan(flat))
    order = tests[np.argsort(flat[tests], kind="stable")]
    corrected = np.full(flat.shape, np.nan)
    corrected[order] = np.minimum(1, np.maximum.accumulate(flat[order] * np.arange(len(order), 0, -1)))
    return corrected.reshape(np.shape(p_values))


class PermutedSums(NamedTuple):
    """The weight that heads put on marked keys, and its distribution if weights are permuted within their rows.

    - observed: the sum of the weights on marked keys, `(L, H)`.
    - expected: the mean of the sum over all permutations, `(L, H)`.
    - variance: an upper bound of the sum's variance, `(L, H)`; it holds however the rows' permutations are correlated.
    - largest: an upper bound of the sum of one sentence minus its mean, `(L, H)`.
    - rows: the number of rows that are summed.
    """

    observed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    largest: np.ndarray
    rows: int

    def plus(self, other: "PermutedSums") -> "PermutedSums":
        """Returns the sums of two sets of sentences together. Their permutations must be independent.

        All fields are added, except for `largest`, which is the larger of the two bounds.
        """
        return PermutedSums(
            self.observed + other.observed,
            self.expected + other.expected,
            self.variance + other.variance,
            np.maximum(self.largest, other.largest),
            self.rows + other.rows,
        )


class RowMoments(NamedTuple):
    """The attention weights of a sentence, and the moments of each row, for `permuted_sums`.

    - weights: the weights, 0 where a row may not attend to the key, `(L, H, T, S)`.
    - allowed: the keys that each row may attend to, bool `(T, S)`.
    - allowed_keys: the number of these keys, `(T,)`.
    - total, mean: the sum and the mean of the weights on these keys, `(L, H, T)`.
    - deviation: the standard deviation of these weights, `(L, H, T)`.
    """

    weights: np.ndarray
    allowed: np.ndarray
    allowed_keys: np.ndarray
    total: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, weights: np.ndarray, allowed: np.ndarray) -> "RowMoments":
        """Computes the moments from weights `(L, H, T, S)` and the keys that each row may attend to, bool `(T, S)`."""
        if not allowed.all():
            weights = np.where(allowed, weights, 0.0)
        allowed_keys = allowed.sum(axis=1)
        divisor = np.maximum(allowed_keys, 1)
        total = weights.sum(axis=-1)
        mean = total / divisor
        variance = np.maximum((weights**2).sum(axis=-1) / divisor - mean**2, 0.0)
        return cls(weights, allowed, allowed_keys, total, mean, np.sqrt(variance))

    def rows(self, used: np.ndarray) -> "RowMoments":
        """Returns the moments of some rows, True in bool `(T,)`."""
        weights = self.weights if used.all() else self.weights[:, :, used]
        total, mean, deviation = (part[:, :, used] for part in (self.total, self.mean, self.deviation))
        return RowMoments(weights, self.allowed[used], self.allowed_keys[used], total, mean, deviation)


def permuted_sums(moments: RowMoments, marked: np.ndarray) -> PermutedSums | None:
    """Sums the weight on the marked keys of a sentence, and computes the sum's mean and bounds if rows are permuted.

    A permutation exchanges weights among the keys that a row may attend to. In a row with k marked keys of a allowed
    ones, the weights on the marked keys are then a sample of k without replacement: their sum has the mean `k * mean`
    and the variance `k * (a - k) / (a - 1) * variance` of the row's weights (Cochran 1977, section 2.6). The rows of a
    sentence are similar, so their permutations are not taken to be independent: the standard deviation of a sum is at
    most the sum of the standard deviations.

    Args:
        moments: the weights of the sentence, with the moments of its rows.
        marked: the marked keys, bool `(T, S)`. Marked keys that are not allowed are ignored.

    Returns:
        The sums; None if no row has both marked and unmarked keys.
    """
    marked_keys = (marked & moments.allowed).sum(axis=1)
    used = (marked_keys > 0) & (marked_keys < moments.allowed_keys)
    if not used.any():
        return None
    marked_keys = marked_keys[used]
    moments = moments.rows(used)
    observed = np.einsum("lhts,ts->lh", moments.weights, marked[used].astype(np.float64))
    expected = moments.mean @ marked_keys
    unmarked_keys = moments.allowed_keys - marked_keys
    deviation = moments.deviation @ np.sqrt(marked_keys * unmarked_keys / (moments.allowed_keys - 1))
    return PermutedSums(observed, expected, deviation**2, moments.total.sum(axis=-1) - expected, int(used.sum()))


def resampled_sums(observed: np.ndarray, replacements: np.ndarray, rows: int) -> PermutedSums:
    """Returns the distribution of the sums of a sentence, each replaced by a random draw from it and `replacements`.

    Args:
        observed: the sums, `(L, H)`.
        replacements: the sums that may replace each observed sum, `(M, L, H)`.
        rows: the number of rows that were summed.

    Returns:
        The observed sums; their mean, variance and largest excess over the M + 1 equally likely draws; and `rows`.
    """
    pool = np.concatenate([observed[None], replacements])
    mean = pool.mean(axis=0)
    return PermutedSums(observed, mean, pool.var(axis=0), pool.max(axis=0) - mean, rows)


def p_upper_bound(sums: PermutedSums) -> np.ndarray:
    """Returns an upper bound of the one-sided p-values `(L, H)`.

    A p-value is the share of permutations whose sum is at least as large as the observed one. Sentences are permuted
    independently, so Bernstein's inequality holds (Boucheron, Lugosi and Massart 2013, corollary 2.11):
    `p <= exp(-d^2 / (2 (v + b d / 3)))`. Here d is the observed sum minus its mean, v is the variance of the sum, and b
    is the most by which the sum of one sentence can exceed its mean.
    """
    excess = np.maximum(sums.observed - sums.expected, 0.0)
    divisor = 2 * (sums.variance + sums.largest * excess / 3)
    return np.exp(-np.divide(excess**2, divisor, out=np.zeros_like(excess), where=divisor > 0))

"""Tests whether two systems differ on the same sentences, corrections for many such tests, and bounds without draws.

With hundreds of heads and Holm's correction, p-values below 1e-4 are needed, and so ten thousands of permutations. The
bound draws none: mean and variance over all permutations are known exactly, and bound the tail.

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

    Where nothing differs, it does not matter which of two results of a sentence came from which system. So both are
    exchanged in a random half of the sentences, B times, and p is how often that brings a difference as large as the
    one that was found. Unlike a bootstrap's, this p needs no assumption on how differences are distributed: with few
    sentences it is not too small (Riezler and Maxwell 2005, section 4; Dror et al. 2018, section 3.2).
    `scipy.stats.permutation_test` does the same by a function that is called for each sample; SciPy is not needed here.

    Args:
        first: numerators and denominators of each sentence, both `(N, ...)`; see `ratio`.
        second: the same under another system, of the same sentences and shapes.

    Returns:
        Two-sided p-values `(...)`, at least 1 / (B + 1); not-a-number where a ratio is.
    """
    # The sentences of the first, then of the second: a mixture of both has each sentence of one of them.
    above, below = (np.concatenate([one, other]).astype(np.float64) for one, other in zip(first, second, strict=True))

    def difference(kept: np.ndarray) -> np.ndarray:
        of_first, of_second = np.c_[kept, 1 - kept], np.c_[1 - kept, kept]
        return resample(above, below, of_first) - resample(above, below, of_second)

    return p_of_exchanges(difference, len(first[0]), samples=samples)


def p_of_exchanges(difference: Callable[[np.ndarray], np.ndarray], sentences: int, *, samples: int) -> np.ndarray:
    """Tests whether two results differ, see `randomisation_p`.

    Args:
        difference: takes `(B, N)`, 1 where a sentence's results are kept and 0 where exchanged; returns `(B, ...)`.
        sentences: N.
        samples: B.

    Returns:
        Two-sided p-values `(...)`; not-a-number where the difference that was found is.
    """
    found = np.abs(difference(np.ones((1, sentences)))[0])
    random = np.random.default_rng(0)
    as_large = np.zeros(found.shape, int)
    for part in parts_of_samples(samples, sentences):
        kept = random.integers(0, 2, size=(part, sentences)).astype(np.float64)
        # Equal sums differ by rounding.
        as_large += (np.abs(difference(kept)) >= found * (1 - 1e-9) - 1e-12).sum(axis=0)
    return np.where(np.isnan(found), np.nan, (1 + as_large) / (samples + 1))


def difference_interval(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], *, samples: int = SAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % interval of `second` minus `first`, by a paired bootstrap of the numerators and denominators of
    all sentences, `(N, ...)`."""
    counts = sentence_counts(len(first[0]), samples=samples)
    return interval(resample(*second, counts) - resample(*first, counts))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Corrects the p-values of many tests, so that the chance of one or more false findings stays below the level at
    which they are read (Holm 1979); not-a-number stays, and does not count as a test.

    Args:
        p_values: of any shape.

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
    """Sums over rows of weight at certain places, and over all permutations of the weights within the rows.

    - found: the sum, `(L, H)`.
    - expected: its mean over the permutations.
    - variance: at most the sum's variance, however the permutations of several rows depend on each other.
    - largest: at most the largest sum, less its mean.
    - rows: of how many rows, a number.
    """

    found: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    largest: np.ndarray
    rows: int

    def plus(self, other: "PermutedSums") -> "PermutedSums":
        """Joins the sums of two independent sentences."""
        return PermutedSums(
            self.found + other.found,
            self.expected + other.expected,
            self.variance + other.variance,
            np.maximum(self.largest, other.largest),
            self.rows + other.rows,
        )


def permuted_sums(weights: np.ndarray, allowed: np.ndarray, places: np.ndarray) -> PermutedSums | None:
    """Adds up the weight at the places of a sentence's rows, and says what permuting each row would make of the sum.

    Weights are exchanged among the keys that a row may look at. In a row with k places among a keys, the k weights at
    them are then a sample without replacement: their sum has the mean `k * mean` and the variance
    `k * (a - k) / (a - 1) * variance` of the row's weights (Cochran 1977, section 2.6). The rows of a sentence are
    alike, so nothing is said of how their permutations depend on each other: the standard deviation of a sum is at most
    the sum of the standard deviations.

    Args:
        weights: `(L, H, T, S)`.
        allowed: bool `(T, S)`, the keys that each row may look at.
        places: bool `(T, S)`, within `allowed`.

    Returns:
        The sums; None if there is no row in which some keys are places and others are not.
    """
    keys, k = allowed.sum(axis=1), (places & allowed).sum(axis=1)
    used = (k > 0) & (k < keys)
    if not used.any():
        return None
    weights, allowed, keys, k = weights[:, :, used], allowed[used], keys[used], k[used]
    weights = np.where(allowed, weights, 0.0)
    total = weights.sum(axis=-1)
    mean = total / keys
    variance = np.maximum((weights**2).sum(axis=-1) / keys - mean**2, 0.0)
    found = np.einsum("lhts,ts->lh", weights, places[used].astype(np.float64))
    expected = mean @ k
    deviation = np.sqrt(variance) @ np.sqrt(k * (keys - k) / (keys - 1))
    return PermutedSums(found, expected, deviation**2, total.sum(axis=-1) - expected, int(used.sum()))


def drawn_sums(found: np.ndarray, others: np.ndarray, rows: int) -> PermutedSums:
    """Returns what becomes of sums if each is replaced by one that is drawn from several and itself.

    Args:
        found: `(L, H)`.
        others: `(M, L, H)`.
        rows: of how many rows they are sums.
    """
    every = np.concatenate([found[None], others])
    mean = every.mean(axis=0)
    return PermutedSums(found, mean, every.var(axis=0), every.max(axis=0) - mean, rows)


def p_at_most(sums: PermutedSums) -> np.ndarray:
    """Bounds the one-sided p-values `(L, H)`, the shares of permutations whose sum is as large as the one found.

    Sentences are permuted independently of each other, so Bernstein's inequality holds (Boucheron, Lugosi and Massart
    2013, corollary 2.11): `p <= exp(-d^2 / (2 (v + b d / 3)))` for a sum that is d above its mean, with the variance v
    and sentences that are at most b above theirs.
    """
    excess = np.maximum(sums.found - sums.expected, 0.0)
    below = 2 * (sums.variance + sums.largest * excess / 3)
    return np.exp(-np.divide(excess**2, below, out=np.zeros_like(excess), where=below > 0))

"""How likely it is that sums over sentences become as large as they are by a permutation, without drawing any.

With hundreds of heads and Holm's correction, p-values below 1e-4 are needed, and so ten thousands of permutations. Here
none is drawn: mean and variance over all permutations are known exactly, and bound the tail.

Letters: L layers, H heads, T rows, S keys.
"""

from typing import NamedTuple

import numpy as np


class PermutedSums(NamedTuple):
    """Sums over rows of weight at certain places, and over all permutations of the weights within the rows.

    - found: the sum, `(L, H)`.
    - expected: its mean over the permutations.
    - variance: at most that of the sum, however the permutations of several rows depend on each other.
    - largest: at most the largest sum, less its mean.
    - rows: of how many rows, a number.
    """

    found: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    largest: np.ndarray
    rows: int

    def plus(self, other: "PermutedSums") -> "PermutedSums":
        """Joins those of two independent sentences."""
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
    """Returns an upper bound of the one-sided p-values, `(L, H)`: of the share of permutations whose sum is as large as
    the one that was found.

    Sentences are permuted independently of each other, so Bernstein's inequality holds (Boucheron, Lugosi and Massart
    2013, corollary 2.11): `p <= exp(-d^2 / (2 (v + b d / 3)))` for a sum that is d above its mean, with the variance v
    and sentences that are at most b above theirs.
    """
    excess = np.maximum(sums.found - sums.expected, 0.0)
    below = 2 * (sums.variance + sums.largest * excess / 3)
    return np.exp(-np.divide(excess**2, below, out=np.zeros_like(excess), where=below > 0))

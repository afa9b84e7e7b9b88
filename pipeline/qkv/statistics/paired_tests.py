"""Whether two systems differ on the same sentences, or only their measurement does; and many such tests at once.

Letters: N sentences, B random exchanges.
"""

from collections.abc import Callable

import numpy as np

from .sentence_bootstrap import SAMPLES, interval, parts_of_samples, resample, sentence_counts


def randomisation_p(
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """Tests whether two ratios of sums differ, by approximate randomisation (Noreen 1989; Riezler and Maxwell 2005).

    Where nothing differs, it does not matter which of two results of a sentence came from which system. So both are
    exchanged in a random half of the sentences, B times, and p is how often that brings a difference as large as the
    one that was found. Unlike a bootstrap's, this p needs no assumption on how differences are distributed: with few
    sentences it is not too small (Riezler and Maxwell 2005, section 4; Dror et al. 2018, section 3.2).
    `scipy.stats.permutation_test` does the same by a function that is called for each sample; SciPy is not needed here.

    Args:
        first: numerators and denominators of each sentence, both `(N, ...)`; see `ratio`.
        second: those of the same sentences under another system, of the same shapes.

    Returns:
        Two-sided p-values `(...)`, at least 1 / (B + 1); not-a-number where a ratio is.
    """
    above, below = (np.stack([one, other]).astype(np.float64) for one, other in zip(first, second, strict=True))

    def difference(kept: np.ndarray) -> np.ndarray:
        return _mixed(above, below, kept) - _mixed(above, below, 1 - kept)

    return p_of_exchanges(difference, above.shape[1], samples=samples, seed=seed)


def p_of_exchanges(
    difference: Callable[[np.ndarray], np.ndarray], sentences: int, *, samples: int = SAMPLES, seed: int = 0
) -> np.ndarray:
    """Tests whether two results differ, see `randomisation_p`.

    Args:
        difference: takes for B mixtures 1 where a sentence's results are kept and 0 where they are exchanged, `(B, N)`,
            and returns the differences `(B, ...)`.
        sentences: N.
        samples: B.
        seed: of the exchanges.

    Returns:
        Two-sided p-values `(...)`; not-a-number where the difference that was found is.
    """
    found = np.abs(difference(np.ones((1, sentences)))[0])
    random, as_large = np.random.default_rng(seed), np.zeros(found.shape, int)
    for part in parts_of_samples(samples, sentences):
        kept = random.integers(0, 2, size=(part, sentences)).astype(np.float64)
        # Equal sums differ by rounding.
        as_large += (np.abs(difference(kept)) >= found * (1 - 1e-9) - 1e-12).sum(axis=0)
    return np.where(np.isnan(found), np.nan, (1 + as_large) / (samples + 1))


def difference_interval(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], *, samples: int = SAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95 % interval of `second` minus `first`, of a paired bootstrap: both on the same drawn sentences.

    Args:
        first: numerators and denominators of each sentence, both `(N, ...)`.
        second: those of the same sentences under another system.
    """
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
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(flat[order] * factors))
    return corrected.reshape(np.shape(p_values))


def _mixed(above: np.ndarray, below: np.ndarray, of_first: np.ndarray) -> np.ndarray:
    """Returns the ratio of each mixture of two systems: the first's sentences where `of_first` `(B, N)` is 1."""
    numerators, denominators = (
        np.tensordot(of_first, sums[0], axes=1) + np.tensordot(1 - of_first, sums[1], axes=1) for sums in (above, below)
    )
    return np.divide(numerators, denominators, out=np.full(np.shape(numerators), np.nan), where=denominators != 0)

"""Intervals of a measure over several trainings that differ in their seed: seeds are drawn, and then sentences.

Another seed gives another model, so what holds of the models that were trained need not hold of the way to train them.
All seeds are measured on the same sentences. So there are two levels that cross: what other sentences would give all of
them, and what other seeds would give.

Letters: K seeds, B samples.
"""

import numpy as np


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

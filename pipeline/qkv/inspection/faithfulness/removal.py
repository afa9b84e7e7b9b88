"""Which source tokens are taken away, and which are left.

Letters: T target tokens, n source tokens without EOS, K shares, D width of an embedding.
"""

import math
from collections.abc import Sequence

import numpy as np

SHARES = (0.1, 0.2, 0.5)
"""Of the source tokens, taken away in turn."""


def tokens_of_share(share: float, tokens: int) -> int:
    """Returns how many tokens a share is, rounded up: of a short sentence, too, one is taken."""
    return math.ceil(round(share * tokens, 9))


def first_of(scores: np.ndarray, noise: np.ndarray, shares: Sequence[float] = SHARES) -> np.ndarray:
    """Returns which tokens come first in the order of the scores.

    Equal scores say nothing of their order, so noise decides: attention that is the same everywhere orders as chance
    does.

    Args:
        scores: `(T, n)`.
        noise: `(T, n)`, different numbers.
        shares: how many come first.

    Returns:
        bool `(K, T, n)`.
    """
    order = np.lexsort((-noise, -scores), axis=-1)
    places = np.argsort(order, axis=-1)
    return np.stack([places < tokens_of_share(share, scores.shape[-1]) for share in shares])


class UnitDraws:
    """Draws which units of each source token's embedding are kept (Zhao and Aletras 2023, section 3).

    A unit is taken away with the probability of its token's share of the scores. All scorers of a target token have the
    same draws, and what is taken away for one measure is what is left for the other.

    Args:
        sources: n.
        width: D.
        seed: of the sentence.
    """

    def __init__(self, sources: int, width: int, seed: Sequence[int]) -> None:
        self._shape = sources, width
        self._seed = tuple(seed)

    def kept(self, positions: np.ndarray, shares: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Returns the units that are kept, bool `(passes, n, D)`.

        Args:
            positions: int `(passes,)`, target tokens.
            shares: `(passes, n)`.
            left: bool `(passes,)`, whether the shares are what is left; else they are what is taken away.
        """
        draws = {
            t: np.random.default_rng((*self._seed, t)).random(self._shape, dtype=np.float32)
            for t in np.unique(positions).tolist()
        }
        chosen = np.stack([draws[t] for t in positions.tolist()]) < shares[..., None]
        return chosen == left[:, None, None]

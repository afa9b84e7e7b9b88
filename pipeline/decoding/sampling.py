"""Tokens drawn by chance, in proportion to their probability or closer to the likeliest."""

import keras
from keras import ops

from .constraints import NEVER


def narrowed(scores, temperature=1.0, top_k=0, top_p=1.0):
    """The scores that tokens are drawn by.

    Args:
        scores: log-probabilities, float32 `(B, V)`.
        temperature: divides them: below 1 favours the likely, above 1 the unlikely.
        top_k: only so many likeliest tokens can be drawn (Fan et al. 2018, section 5.4); 0: all.
        top_p: only the fewest likeliest tokens that hold this share of the probability, after the other two
            (nucleus sampling, Holtzman et al. 2020, section 3.1).

    Returns:
        Scores of the same shape, up to a constant, minus infinity for what cannot be drawn. Ties at the border stay in.
    """
    scores = scores / temperature
    if top_k:
        least = ops.top_k(scores, min(top_k, scores.shape[-1] or top_k))[0][:, -1:]
        scores = ops.where(scores < least, NEVER, scores)
    if top_p < 1:
        falling = ops.flip(ops.sort(scores, axis=-1), axis=-1)
        shares = ops.softmax(falling, axis=-1)
        before = ops.cumsum(shares, axis=-1) - shares
        least = ops.min(ops.where(before < top_p, falling, float("inf")), axis=-1, keepdims=True)
        scores = ops.where(scores < least, NEVER, scores)
    return scores


class Sampler:
    """Draws the next tokens.

    Args:
        temperature, top_k, top_p: see `narrowed`.
        seed: the same seed draws the same, call for call.
    """

    def __init__(self, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 1) -> None:
        self.narrowing = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        self.seed = keras.random.SeedGenerator(seed)

    def __call__(self, scores):
        """One token for each row of log-probabilities `(B, V)`: int32 `(B,)`."""
        return keras.random.categorical(narrowed(scores, **self.narrowing), 1, dtype="int32", seed=self.seed)[:, 0]

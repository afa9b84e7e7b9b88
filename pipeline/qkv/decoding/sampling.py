"""Sampling: draws tokens in proportion to their probability, or from the likeliest ones only."""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from .greedy import GreedySearch
from .search import MINUS_INFINITY, is_number


def narrow_scores(scores, temperature=1.0, top_k=0, top_p=1.0):
    """Turns log-probabilities into scores from which tokens are drawn.

    Args:
        scores: log-probabilities, float32 `(B, V)`.
        temperature: divides the scores: below 1 favours likely tokens, above 1 unlikely ones.
        top_k: only this many of the likeliest tokens can be drawn (Fan et al. 2018, section 5.4); 0: all.
        top_p: only the fewest likeliest tokens whose probabilities sum to at least this can be drawn (nucleus
            sampling, Holtzman et al. 2020, section 3.1); applied after the other two.

    Returns:
        Scores of the same shape, up to a constant, and minus infinity for tokens that cannot be drawn. Tokens that tie
        with the last one allowed are allowed too.
    """
    # Not a quotient: a graph has always multiplied by the reciprocal of a temperature that was a constant.
    scores = scores * (1.0 / ops.cast(temperature, "float32"))
    if top_k:
        lowest = ops.top_k(scores, min(top_k, scores.shape[-1] or top_k))[0][:, -1:]
        scores = ops.where(scores < lowest, MINUS_INFINITY, scores)
    if not is_number(top_p, 1):
        descending = ops.flip(ops.sort(scores, axis=-1), axis=-1)
        probabilities = ops.softmax(descending, axis=-1)
        sum_before = ops.cumsum(probabilities, axis=-1) - probabilities
        lowest = ops.min(ops.where(sum_before < top_p, descending, float("inf")), axis=-1, keepdims=True)
        scores = ops.where(scores < lowest, MINUS_INFINITY, scores)
    return scores


@dataclass(frozen=True, kw_only=True)
class Sampling(GreedySearch):
    """N hypotheses of tokens drawn at random, in the order in which they were drawn.

    Args: see `GreedySearch`, and:
        temperature, top_k, top_p: see `narrow_scores`.
        seed: the same seed gives the same draws.
        drawn: the number of steps that were drawn before with the same seed, after which these draws go on.
        count: N.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    drawn: int = 0
    count: int = 1  # type: ignore[misc]

    @property
    def numbers(self) -> dict[str, Any]:
        """See `Search`."""
        numbers = super().numbers | {"temperature": np.float32(self.temperature)}
        if self.top_p < 1:
            numbers["top_p"] = np.float32(self.top_p)
        return numbers | {"seed": np.int64(self.seed), "drawn": np.int64(self.drawn)}

    def pick(self, scores, step):
        """Draws one token for each row of log-probabilities `(R, V)`, given the number of tokens before it."""
        scores = narrow_scores(scores, self.temperature, self.top_k, self.top_p)
        seed, drawn, step = (ops.cast(number, _SEED_DTYPE) for number in (self.seed, self.drawn, step))
        generator = _GivenState(ops.stack([seed, drawn + step]))
        return keras.random.categorical(scores, 1, dtype="int32", seed=generator)[:, 0]


_SEED_DTYPE = {"tensorflow": "int64", "jax": "uint32"}.get(keras.backend.backend(), "int32")
"""The type of the state of Keras' random number generators."""


class _GivenState(keras.random.SeedGenerator):
    """A random number generator for one draw, without a variable, so that its state may be the input of a graph."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def next(self, ordered: bool = True) -> Any:
        """Returns the state, as Keras asks for it."""
        return self._state

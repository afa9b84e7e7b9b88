"""Sampling: draws each token at random by its probability, from all tokens or from the likeliest ones only.

Letters: B batch, R hypotheses of the batch, N hypotheses of a sentence, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from .greedy import GreedySearch
from .search import MINUS_INFINITY, is_number


def narrow_scores(scores, temperature=1.0, top_k=0, top_p=1.0):
    """Returns the scores of the tokens to draw from: divided by the temperature, and limited to the likeliest tokens.

    Args:
        scores: log-probabilities, float32 `(R, V)`.
        temperature: a positive number by which the scores are divided. Below 1 it favours likely tokens, above 1
            unlikely ones.
        top_k: the number of likeliest tokens to draw from (Fan et al. 2018, section 5.4). 0 stands for all tokens.
        top_p: a probability, above 0 and at most 1. Tokens are drawn from the smallest set of likeliest tokens whose
            probabilities sum to at least `top_p` (nucleus sampling, Holtzman et al. 2020, section 3.1). The
            probabilities are computed after the temperature and `top_k`. 1 stands for all tokens.

    Returns:
        The logits of the distribution to draw from, float32 `(R, V)`; minus infinity for tokens that cannot be drawn.
        Tokens that tie with the last allowed token are allowed too.
    """
    # A product with the reciprocal, because a graph computes a quotient by a constant in that way: the temperature was
    # a constant in earlier versions, and the same seed must give the same draws.
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
    """Random sampling with a model: N hypotheses, in the order in which they were drawn.

    It is a `decoding.search.Search`, and has the arguments of `decoding.greedy.GreedySearch` as well.

    Args:
        temperature: a positive number by which log-probabilities are divided. Below 1 it favours likely tokens, above 1
            unlikely ones.
        top_k: the number of likeliest tokens to draw from (Fan et al. 2018, section 5.4); 0 for all tokens.
        top_p: a probability, above 0 and at most 1. Tokens are drawn from the smallest set of likeliest tokens whose
            probabilities sum to at least `top_p` (nucleus sampling, Holtzman et al. 2020, section 3.1).
        seed: the seed of the random draws. Equal seeds give equal draws.
        drawn: the number of steps in which earlier calls have drawn tokens with this seed. The draws continue after
            these steps.
        count: N, the number of hypotheses of each sentence.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    drawn: int = 0
    count: int = 1  # type: ignore[misc]

    @property
    def numbers(self) -> dict[str, Any]:
        """The settings that a graph takes as inputs, by name; each value is a NumPy scalar."""
        numbers = super().numbers | {"temperature": np.float32(self.temperature)}
        if self.top_p < 1:
            numbers["top_p"] = np.float32(self.top_p)
        return numbers | {"seed": np.int64(self.seed), "drawn": np.int64(self.drawn)}

    def pick(self, scores, step):
        """Returns the next token of each hypothesis, drawn at random, int32 `(R,)`.

        Args:
            scores: log-probabilities, float32 `(R, V)`; minus infinity for banned tokens.
            step: the number of tokens before the next one.
        """
        scores = narrow_scores(scores, self.temperature, self.top_k, self.top_p)
        seed, drawn, step = (ops.cast(number, _SEED_DTYPE) for number in (self.seed, self.drawn, step))
        generator = _FixedState(ops.stack([seed, drawn + step]))
        return keras.random.categorical(scores, 1, dtype="int32", seed=generator)[:, 0]


_SEED_DTYPE = {"tensorflow": "int64", "jax": "uint32"}.get(keras.backend.backend(), "int32")
"""The type of the state of Keras' random number generators."""


class _FixedState(keras.random.SeedGenerator):
    """A generator of random numbers for a single draw.

    Its state is not a Keras variable, so it can be computed from the inputs of a graph.

    Args:
        state: the state, two integers.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def next(self, ordered: bool = True) -> Any:
        """Returns the state. Keras calls this method at each draw."""
        return self._state

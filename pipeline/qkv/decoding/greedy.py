"""Greedy search: takes the likeliest token at every step, for a whole batch at once.

Letters: B batch, R hypotheses of the batch, L maximum length of a target, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..model.interface import rows_for_each
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .constraints import ban_early_end, ban_repeated_ngrams, ban_special_tokens, force_end
from .lexical_constraints import Ban
from .search import Hypotheses, repeat_while, write_at


@dataclass(frozen=True)
class GreedySearch:
    """Greedy search with a model: one hypothesis, at every step the likeliest token that the constraints allow.

    It is a `decoding.search.Search`. The score of a hypothesis is its log-probability.

    Args:
        min_length: the minimum number of tokens before EOS.
        no_repeat_ngram: the length n of n-grams that may occur only once in a target. 0 allows repetitions.
        force_eos: if True, a target that reaches the maximum length gets EOS as its last token.
        ban: the phrases that no target may contain; None if there are none.

    Attributes:
        count: the number of hypotheses of each sentence, 1.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    force_eos: bool = False
    ban: Ban | None = None

    count: ClassVar[int] = 1

    @property
    def numbers(self) -> dict[str, Any]:
        """The settings that a graph takes as inputs, by name; each value is a NumPy scalar."""
        return {"min_length": np.int32(self.min_length)} if self.min_length else {}

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """Returns a copy of the search with other values of settings.

        Args:
            numbers: the new values, NumPy scalars or tensors, by the name of the setting.
        """
        return replace(self, **numbers)

    def pick(self, scores, step):
        """Returns the next token of each hypothesis, int `(R,)`: the likeliest one. Ties go to the lower id.

        Args:
            scores: log-probabilities, float32 `(R, V)`; minus infinity for banned tokens.
            step: the number of tokens before the next one.
        """
        return ops.argmax(scores, axis=-1)

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        if required is not None:
            raise ValueError("required: expected None, because only a beam search can enforce required phrases")
        batch = dynamic_shape(max_lengths)[0]
        rows = batch * self.count

        def step(tokens, state):
            cache, banned = state
            output = model.decode(tokens, memory, cache=cache, training=False)
            banned = self.ban.advance(banned, tokens[:, 0]) if self.ban else ()
            return output.logits[:, -1], (output.cache, banned)

        def choose(scores, ids, step, state):
            scores = ban_early_end(scores, step, self.min_length)
            scores = ban_repeated_ngrams(scores, ids, step, self.no_repeat_ngram)
            if self.ban:
                # Greedy search never drops a hypothesis. If a word that must not end here were allowed, the next token
                # would have to continue it, and two words would be glued together.
                scores = self.ban.allow(scores, self.ban.following(state[1]), ops.ones_like(limits, "bool"))
            if self.force_eos:
                scores = force_end(scores, step + 1 >= limits)
            picked = ops.cast(self.pick(scores, step), "int32")
            if prefix is None:
                return picked
            prefix_tokens = ops.take(prefixes, step, axis=1)
            return ops.where(ops.equal(prefix_tokens, PAD), picked, prefix_tokens)

        cache, limits = rows_for_each((model.start_cache(memory), max_lengths), rows)
        prefixes = None if prefix is None else rows_for_each(prefix, rows)
        state = cache, self.ban.start(rows) if self.ban else ()
        ids, log_probabilities = greedy_search(step, state, limits, length, choose)
        shape = (batch, self.count, length)
        log_probabilities = ops.reshape(log_probabilities, shape)
        return Hypotheses(ops.reshape(ids, shape), log_probabilities, ops.sum(log_probabilities, axis=-1))


def greedy_search(next_token_logits, state, max_lengths, length, choose):
    """Extends every target by one token at a time until all have ended.

    Args:
        next_token_logits: a function `(last tokens, state) -> (logits, new state)`. The tokens are int32 `(B, 1)`, at
            first BOS, and the logits of the next tokens `(B, V)`.
        state: any nested structure of tensors, passed from call to call.
        max_lengths: the maximum number of tokens of each target, EOS included, int32 `(B,)`.
        length: L, at least the largest of `max_lengths`.
        choose: a function `(scores, ids, step, new state) -> tokens` that returns the next token of each target, int32
            `(B,)`. The scores are the log-probabilities of the next tokens, float32 `(B, V)`, minus infinity for PAD
            and BOS. The ids are the tokens so far, int32 `(B, L)`, and `step` is their number.

    Returns:
        `(ids, log_probabilities)`: the tokens, int32 `(B, L)`, and the natural logarithm of each token's probability,
        float32 `(B, L)`. A target ends in EOS unless it is truncated. PAD follows, with the logarithm 0.

    Raises:
        ValueError: JAX traces the function.
    """
    batch = dynamic_shape(max_lengths)[0]

    def any_live(step, tokens, finished, ids, log_probabilities, state):
        return ops.logical_and(step < length, ops.logical_not(ops.all(finished)))

    def extend(step, tokens, finished, ids, log_probabilities, state):
        logits, state = next_token_logits(tokens, state)
        scores = ops.log_softmax(ops.cast(logits, "float32"))
        chosen = choose(ban_special_tokens(scores), ids, step, state)
        score = ops.squeeze(ops.take_along_axis(scores, ops.expand_dims(chosen, 1), axis=1), 1)
        chosen = ops.where(finished, PAD, chosen)
        score = ops.where(finished, 0.0, score)
        ids = write_at(ids, step, chosen)
        log_probabilities = write_at(log_probabilities, step, score)
        finished = ops.logical_or(finished, ops.logical_or(ops.equal(chosen, EOS), step + 1 >= max_lengths))
        return step + 1, ops.expand_dims(chosen, 1), finished, ids, log_probabilities, state

    start = (
        ops.zeros((), "int32"),
        ops.full((batch, 1), BOS, "int32"),
        max_lengths <= 0,
        ops.full((batch, length), PAD, "int32"),
        ops.zeros((batch, length), "float32"),
        state,
    )
    _, _, _, ids, log_probabilities, _ = repeat_while(any_live, extend, start)
    return ids, log_probabilities

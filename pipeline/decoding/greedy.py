"""One target for each source, token by token, for a whole batch at once: the likeliest at every step, or a drawn one.

Letters: B batch, L most tokens of a target, V vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from ..text.tokenizer import BOS, EOS, PAD
from .constraints import ban_never_chosen


class SearchResult(NamedTuple):
    """What a search found.

    - ids: int32 `(B, L)`, ending in EOS unless truncated, then PAD.
    - log_probabilities: float32 `(B, L)` of each token, 0 for PAD.
    """

    ids: Any
    log_probabilities: Any


def likeliest(scores, ids, step):
    """The token with the highest of scores `(B, V)`; ties go to the lower id."""
    return ops.argmax(scores, axis=-1)


def put(x, step, values):
    """Writes `values` `(...)` at place `step` of the last axis of x `(..., L)`."""
    return ops.where(ops.equal(ops.arange(ops.shape(x)[-1], dtype="int32"), step), ops.expand_dims(values, -1), x)


def greedy_search(next_token_logits, state, max_lengths, length, choose=likeliest) -> SearchResult:
    """Extends every target by a token until all have ended. PAD and BOS are never chosen: no target contains them.

    Args:
        next_token_logits: takes the last tokens int32 `(B, 1)` and the state, and returns logits `(B, V)` for the next
            tokens and the new state. It is first called with BOS.
        state: anything nested of tensors, handed from call to call.
        max_lengths: int32 `(B,)`, the most tokens of each target, EOS among them.
        length: L, at least the largest of `max_lengths`.
        choose: takes the next tokens' log-probabilities float32 `(B, V)`, the tokens so far `(B, L)`, and how many they
            are, and returns the next token of each target, int `(B,)`.
    """
    batch = ops.shape(max_lengths)[0]

    def unfinished(step, tokens, ended, ids, log_probabilities, state):
        return ops.logical_and(step < length, ops.logical_not(ops.all(ended)))

    def extend(step, tokens, ended, ids, log_probabilities, state):
        logits, state = next_token_logits(tokens, state)
        scores = ops.log_softmax(ops.cast(logits, "float32"))
        chosen = ops.cast(choose(ban_never_chosen(scores), ids, step), "int32")
        score = ops.squeeze(ops.take_along_axis(scores, ops.expand_dims(chosen, 1), axis=1), 1)
        chosen = ops.where(ended, PAD, chosen)
        score = ops.where(ended, 0.0, score)
        ids = put(ids, step, chosen)
        log_probabilities = put(log_probabilities, step, score)
        ended = ops.logical_or(ended, ops.logical_or(ops.equal(chosen, EOS), step + 1 >= max_lengths))
        return step + 1, ops.expand_dims(chosen, 1), ended, ids, log_probabilities, state

    start = (
        ops.zeros((), "int32"),
        ops.full((batch, 1), BOS, "int32"),
        max_lengths <= 0,
        ops.full((batch, length), PAD, "int32"),
        ops.zeros((batch, length), "float32"),
        state,
    )
    _, _, _, ids, log_probabilities, _ = ops.while_loop(unfinished, extend, start)
    return SearchResult(ids, log_probabilities)

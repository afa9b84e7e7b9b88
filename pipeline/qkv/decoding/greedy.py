"""Search for one target per source, token by token, for a whole batch at once: the likeliest token at every step, or a
drawn one.

Letters: B batch, L maximum length of a target, V vocabulary.
"""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.tokenizer import BOS, EOS, PAD
from .constraints import ban_special_tokens
from .control_flow import repeat_while
from .hypotheses import write_at


def choose_likeliest(scores, ids, step, state):
    """Returns the token with the highest of scores `(B, V)`; ties go to the lower id."""
    return ops.argmax(scores, axis=-1)


def greedy_search(next_token_logits, state, max_lengths, length, choose=choose_likeliest):
    """Extends every target by one token at a time until all are finished. PAD and BOS are never chosen.

    Args:
        next_token_logits: takes the last tokens int32 `(B, 1)` and the state, and returns logits `(B, V)` for the next
            tokens and the new state. It is first called with BOS.
        state: any nested structure of tensors, passed from call to call.
        max_lengths: int32 `(B,)`, the maximum number of tokens of each target, EOS included.
        length: L, at least the largest of `max_lengths`.
        choose: takes the log-probabilities of the next tokens, float32 `(B, V)`, the tokens so far, int32 `(B, L)`, and
            their number and the new state, and returns the next token of each target, int `(B,)`.

    Returns:
        `(ids, log_probabilities)`: int32 `(B, L)`, ending in EOS unless truncated, then PAD; and float32 `(B, L)`, the
        natural logarithm of each token's probability, 0 for PAD.
    """
    batch = dynamic_shape(max_lengths)[0]

    def any_live(step, tokens, finished, ids, log_probabilities, state):
        return ops.logical_and(step < length, ops.logical_not(ops.all(finished)))

    def extend(step, tokens, finished, ids, log_probabilities, state):
        logits, state = next_token_logits(tokens, state)
        scores = ops.log_softmax(ops.cast(logits, "float32"))
        chosen = ops.cast(choose(ban_special_tokens(scores), ids, step, state), "int32")
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

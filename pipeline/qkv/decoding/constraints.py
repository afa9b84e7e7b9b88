"""Constraints on the tokens that a search may choose next.

The functions take the scores of the next tokens, float32 `(..., V)`, and return them with minus infinity for every
token that is not allowed. `Constraint` is what a beam search asks besides.

Letters: A sentences still searched, B batch, K beam size, R hypotheses, L maximum length of a target, V vocabulary.
"""

from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .search import MINUS_INFINITY, is_number, top_k_of_many


def ban_special_tokens(scores):
    """Bans PAD and BOS, which no target contains."""
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_or(ops.equal(ids, PAD), ops.equal(ids, BOS)), MINUS_INFINITY, scores)


def ban_early_end(scores, step, min_length):
    """Bans EOS while a hypothesis has fewer than `min_length` tokens; it has `step`."""
    if is_number(min_length, 0):
        return scores
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_and(ops.equal(ids, EOS), step < min_length), MINUS_INFINITY, scores)


def force_end(scores, is_last):
    """Allows EOS alone, as certain, in the rows that may have one more token: bool `(R,)`."""
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    forced = ops.where(ops.equal(ids, EOS), 0.0, MINUS_INFINITY)
    return ops.where(ops.expand_dims(is_last, -1), forced, scores)


def force_tokens(allowed, scores, tokens):
    """Allows one token alone where `tokens`, int `(R,)`, is not PAD, also one that was banned.

    Args:
        allowed: `(R, V)`, the scores after all bans.
        scores: `(R, V)`, the scores before them.
        tokens: the tokens.
    """
    tokens = ops.expand_dims(tokens, -1)
    forced = ops.where(ops.equal(ops.arange(dynamic_shape(scores)[-1], dtype="int32"), tokens), scores, MINUS_INFINITY)
    return ops.where(ops.equal(tokens, PAD), allowed, forced)


def ban_repeated_ngrams(scores, ids, step, n):
    """Bans every token that would repeat an n-gram of its hypothesis (Paulus et al. 2018, section 2.5).

    Args:
        scores: `(R, V)`.
        ids: int32 `(R, L)`, the tokens so far.
        step: how many there are.
        n: 0 bans nothing.
    """
    length = dynamic_shape(ids)[1]
    if not n:
        return scores
    # Bans each token that followed an earlier occurrence of the last n - 1 tokens.
    starts = ops.arange(length, dtype="int32")
    repeats = ops.broadcast_to(starts + n - 1 < step, dynamic_shape(ids))
    for i in range(n - 1):
        earlier = ops.take(ids, ops.minimum(starts + i, length - 1), axis=1)
        latest = ops.take(ids, ops.reshape(ops.maximum(step - (n - 1) + i, 0), (1,)), axis=1)
        repeats = ops.logical_and(repeats, ops.equal(earlier, latest))
    row, start = ops.nonzero(repeats)
    following = ops.take_along_axis(ids, ops.expand_dims(ops.minimum(starts + n - 1, length - 1), 0), axis=1)
    tokens = ops.take(ops.reshape(following, (-1,)), row * ops.cast(length, row.dtype) + start)
    banned = ops.stack([ops.cast(row, "int32"), tokens], axis=1)
    return ops.scatter_update(scores, banned, ops.full(dynamic_shape(banned)[:1], MINUS_INFINITY))


class Constraint:
    """Allows everything. A subclass has a state for each hypothesis, which goes with it from step to step.

    `rows`, int32 `(A,)`, are everywhere the sentences of the batch that are still searched.
    """

    def start(self):
        """Returns the state before the first token: any nested structure of tensors `(B * K, ...)`."""
        return ()

    def advance(self, state, tokens, rows):
        """Returns the state after the tokens int32 `(A * K,)`, which are BOS at first."""
        return ()

    def allow(self, allowed, scores, state, step, rows):
        """Returns the scores of the next tokens, `(A * K, V)`, with minus infinity where they are not allowed, given
        the scores after and before all bans of the settings; hypotheses have `step` tokens."""
        return allowed

    def best_extensions(self, totals, state, rows, count):
        """Chooses `count` among the extensions of a sentence's hypotheses, given the log-probability of each with each
        token, float32 `(A, K, V)`: `(totals, indices)`, float32 and int32 `(A, count)`, in the order of preference; an
        index is hypothesis times V plus token."""
        sentences, size, vocabulary = dynamic_shape(totals)
        return top_k_of_many(ops.reshape(totals, (sentences, size * vocabulary)), count)

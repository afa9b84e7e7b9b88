"""Which tokens a search may not choose next.

Each takes the scores of the next tokens, float32 `(..., V)`, and returns them with minus infinity for what is not
allowed.

Letters: R hypotheses, L most tokens of a target, V vocabulary.
"""

from keras import ops

from ..text.tokenizer import BOS, EOS, PAD

NEVER = -float("inf")


def ban_never_chosen(scores):
    """No target contains PAD or BOS."""
    ids = ops.arange(ops.shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_or(ops.equal(ids, PAD), ops.equal(ids, BOS)), NEVER, scores)


def ban_early_end(scores, step, min_length):
    """EOS only after `min_length` tokens, of which `step` are there."""
    if not min_length:
        return scores
    ids = ops.arange(ops.shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_and(ops.equal(ids, EOS), step < min_length), NEVER, scores)


def ban_repeated_ngrams(scores, ids, step, n):
    """No run of n tokens twice (Paulus et al. 2018, section 2.5).

    Args:
        scores: `(R, V)`.
        ids: int32 `(R, L)`, the tokens so far.
        step: how many there are.
        n: 0 bans nothing.
    """
    length = ops.shape(ids)[1]
    if not n:
        return scores
    # Wherever the last n - 1 tokens stood before, what followed them there may not follow them again.
    starts = ops.arange(length, dtype="int32")
    repeats = ops.broadcast_to(starts + n - 1 < step, ops.shape(ids))
    for i in range(n - 1):
        then = ops.take(ids, ops.minimum(starts + i, length - 1), axis=1)
        now = ops.take(ids, ops.reshape(ops.maximum(step - (n - 1) + i, 0), (1,)), axis=1)
        repeats = ops.logical_and(repeats, ops.equal(then, now))
    row, start = ops.nonzero(repeats)
    following = ops.take_along_axis(ids, ops.expand_dims(ops.minimum(starts + n - 1, length - 1), 0), axis=1)
    banned = ops.stack([ops.cast(row, "int32"), _at(following, row, start)], axis=1)
    return ops.scatter_update(scores, banned, ops.full(ops.shape(banned)[:1], NEVER))


def _at(x, row, column):
    """The elements of a matrix at rows and columns."""
    width = ops.cast(ops.shape(x)[1], row.dtype)
    return ops.take(ops.reshape(x, (-1,)), row * width + column)

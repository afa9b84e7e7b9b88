"""Constraints on the tokens that a search may choose next.

Each function takes scores of the next tokens, float32 `(R, V)`, and returns them with minus infinity for the banned
tokens. Scores are log-probabilities, or logits, which differ from them by one number for each row. `Constraint` is the
interface of further constraints of a beam search.

Letters: A sentences still searched, B batch, W live hypotheses of a sentence, R hypotheses, L maximum length of a
target, V vocabulary.
"""

from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .search import MINUS_INFINITY, is_number, top_k_of_many


def ban_special_tokens(scores):
    """Bans PAD and BOS."""
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_or(ops.equal(ids, PAD), ops.equal(ids, BOS)), MINUS_INFINITY, scores)


def ban_early_end(scores, step, min_length):
    """Bans EOS in hypotheses that are shorter than `min_length`.

    Args:
        scores: the scores of the next tokens, float32 `(R, V)`.
        step: the number of tokens that the hypotheses have, an int scalar.
        min_length: the least number of tokens before EOS.

    Returns:
        The scores `(R, V)`, with EOS at minus infinity if `step` is less than `min_length`.
    """
    if is_number(min_length, 0):
        return scores
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    return ops.where(ops.logical_and(ops.equal(ids, EOS), step < min_length), MINUS_INFINITY, scores)


def force_end(scores, is_last, certain=0.0):
    """Allows only EOS as the last token of hypotheses.

    Args:
        scores: the scores of the next tokens, float32 `(R, V)`.
        is_last: True if the next token of a hypothesis is its last one, bool `(R,)`. Other rows are unchanged.
        certain: the score of EOS then, a number or float32 `(R, 1)`: the score of a token of probability 1.
    """
    ids = ops.arange(dynamic_shape(scores)[-1], dtype="int32")
    forced = ops.where(ops.equal(ids, EOS), certain, MINUS_INFINITY)
    return ops.where(ops.expand_dims(is_last, -1), forced, scores)


def force_tokens(allowed, scores, tokens):
    """Forces the next token of hypotheses, even if it is banned.

    Args:
        allowed: the scores after all bans, float32 `(R, V)`.
        scores: the scores before any ban, float32 `(R, V)`. A forced token has this score.
        tokens: the forced tokens, int `(R,)`; PAD forces nothing.
    """
    tokens = ops.expand_dims(tokens, -1)
    forced = ops.where(ops.equal(ops.arange(dynamic_shape(scores)[-1], dtype="int32"), tokens), scores, MINUS_INFINITY)
    return ops.where(ops.equal(tokens, PAD), allowed, forced)


def ban_repeated_ngrams(scores, ids, step, n):
    """Bans every token that would repeat an n-gram of its hypothesis (Paulus et al. 2018, section 2.5).

    Args:
        scores: the scores of the next tokens, float32 `(R, V)`.
        ids: the tokens of each hypothesis, int32 `(R, L)`. Only the first `step` columns are read.
        step: the number of tokens of each hypothesis.
        n: the length of the n-grams; 0 bans nothing.
    """
    length = dynamic_shape(ids)[1]
    if not n:
        return scores
    # A token is banned if it followed an earlier occurrence of the last n - 1 tokens.
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
    """The base class of constraints on the hypotheses of a beam search. It allows every token.

    A subclass has a state for each hypothesis, which the beam search gathers along with the hypotheses. The argument
    `rows` of the methods, int32 `(A,)`, holds the indices in the batch of the sentences that are still searched.
    """

    def start(self):
        """Returns the state before the first token: any nested structure of tensors `(B, ...)`."""
        return ()

    def advance(self, state, tokens, rows):
        """Returns the state after `tokens`, the last token of each hypothesis, int32 `(A * W,)`; BOS at the start."""
        return ()

    def allow(self, allowed, scores, state, step, rows):
        """Returns the scores of the next tokens, float32 `(A * W, V)`, minus infinity for tokens that are not allowed.

        Args:
            allowed: the scores after the bans of the settings, float32 `(A * W, V)`. PAD and BOS are not yet banned.
            scores: the scores before any ban, float32 `(A * W, V)`.
            state: the state after the last tokens.
            step: the number of tokens of each hypothesis.
            rows: see the class.
        """
        return allowed

    def best_extensions(self, allowed, offsets, state, rows, count):
        """Chooses extensions of each sentence's hypotheses by one token. The base class chooses the likeliest.

        Args:
            allowed: the scores of the next tokens, float32 `(A, W, V)`, minus infinity for tokens that are not allowed.
                PAD and BOS are never chosen, whatever their scores.
            offsets: the number to add to the scores of each hypothesis, float32 `(A, W)`. The sums are the
                log-probabilities of the extensions.
            state: the state after the last tokens.
            rows: see the class.
            count: the number of extensions to choose for each sentence.

        Returns:
            `(totals, indices)`, each `(A, count)`, the preferred first: log-probabilities, float32, and indices, int32.
            An index is `hypothesis * V + token`.
        """
        return top_k_of_many(allowed, count, offsets, banned=(PAD, BOS))

"""A step of beam search: the candidates that extend live hypotheses, and those of them that are finished.

Letters: as in `beam`.
"""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from .beam_settings import BeamSettings
from .beam_state import BeamState
from .constraint import Constraint
from .constraints import MINUS_INFINITY, ban_early_end, ban_repeated_ngrams, ban_special_tokens, force_end, force_tokens
from .hypotheses import Hypotheses, concatenate, gather_columns, gather_rows, write_at


def extend_hypotheses(
    logits, state: BeamState, settings: BeamSettings, constraint: Constraint, is_last=None, given=None
):
    """Finds the 2 K likeliest extensions of a sentence's K live hypotheses by one token.

    Args:
        logits: `(A * K, V)`.
        state: before the step.
        settings: `BeamSettings`.
        constraint: whose state is in `state.target_state`.
        is_last: bool `(A,)`, the sentences whose hypotheses must end; by default none.
        given: int32 `(A,)`, the tokens that must come next, PAD where any may; by default any.

    Returns:
        `(candidates, parents, tokens)`: `Hypotheses` `(A, 2 K, ...)` scored by log-probability; int32 `(A, 2 K)`, the
        hypothesis that each extends; and int32 `(A, 2 K)`, the token that it adds.
    """
    size = settings.size
    scores = ops.log_softmax(ops.cast(logits, "float32"))
    _, _, length = dynamic_shape(state.live.ids)
    vocabulary = dynamic_shape(scores)[-1]
    allowed = ban_early_end(ban_special_tokens(scores), state.step, settings.min_length)
    history = ops.reshape(state.live.ids, (-1, length))
    allowed = ban_repeated_ngrams(allowed, history, state.step, settings.no_repeat_ngram)
    _, kept = state.target_state
    allowed = constraint.allow(allowed, scores, kept, state.step, state.rows)
    if settings.renormalize:
        allowed = ops.log_softmax(allowed)
    if is_last is not None:
        allowed = force_end(allowed, ops.repeat(is_last, size))
    if given is not None:
        allowed = force_tokens(allowed, scores, ops.repeat(given, size))
    totals = ops.reshape(state.live.scores, (-1, 1)) + allowed
    totals = ops.reshape(totals, (-1, size, vocabulary))
    totals, indices = constraint.best_extensions(totals, kept, state.rows, 2 * size)
    parents, tokens = indices // vocabulary, indices % vocabulary
    token_scores = ops.take_along_axis(ops.reshape(scores, (-1, size * vocabulary)), indices, axis=1)
    candidates = Hypotheses(
        write_at(gather_columns(state.live.ids, parents), state.step, tokens),
        write_at(gather_columns(state.live.log_probabilities, parents), state.step, token_scores),
        totals,
    )
    return candidates, parents, tokens


def finish_hypotheses(state: BeamState, candidates: Hypotheses, parents, ends, bonus, settings: BeamSettings):
    """Returns the best K finished hypotheses `(A, K, ...)`, among those finished before this step and those of the
    first K candidates that end.

    Args:
        state: after the step.
        candidates: `(A, 2 K, ...)`, scored by log-probability.
        parents: int32 `(A, 2 K)`, the hypothesis that each candidate extends.
        ends: bool `(A, 2 K)`, which candidates end in EOS.
        bonus: float32 `(A, K)`, added to the score of the candidates that extend each hypothesis; or None.
        settings: `BeamSettings`.
    """
    scores = candidates.scores / settings.length_divisor(state.step)
    if bonus is not None:
        scores = scores + ops.take_along_axis(bonus, parents, axis=1)
    among_first = ops.arange(2 * settings.size) < settings.size
    scores = ops.where(ops.logical_and(ends, among_first), scores, MINUS_INFINITY)
    finished = Hypotheses(*gather_rows(state.finished, state.rows))
    return concatenate(finished, candidates._replace(scores=scores)).select_best(settings.size)[0]

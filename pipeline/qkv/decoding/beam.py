"""Beam search: keeps the best hypotheses of each sentence and extends those of a whole batch in step.

Sutskever et al. 2014, section 3.2; length and coverage penalties of GNMT (Wu et al. 2016, equation 14).

Letters: B batch, A sentences still searched, K beam size, N best hypotheses asked for, L maximum length of a target, V
vocabulary, S source positions.
"""

from collections.abc import Callable

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.tokenizer import BOS, EOS
from .beam_settings import BeamSettings
from .beam_state import drop_finished, start_beam
from .beam_step import extend_hypotheses, finish_hypotheses
from .constraint import Constraint
from .control_flow import repeat_while
from .hypotheses import Hypotheses, gather_columns

UNCONSTRAINED = Constraint()


def beam_search(
    next_token_logits: Callable,
    source_state,
    target_state,
    max_lengths,
    length,
    settings: BeamSettings,
    coverage: Callable | None = None,
    prefix=None,
    constraint: Constraint = UNCONSTRAINED,
) -> Hypotheses:
    """Extends K hypotheses of every sentence by one token at a time.

    Each step looks at the 2 K likeliest extensions of a sentence's hypotheses. Those of the first K that end in EOS are
    stored as finished, with their score; the first K of the others stay live. A sentence is done when K hypotheses are
    finished, when no live one can still reach the N best, or at its maximum length, where live hypotheses fill the
    remaining places. It then leaves the batch. Ties go to the better hypothesis and the lower id, so that the same
    input gives the same output. With K = 1 this is greedy search. In a graph the size of the batch must be unknown,
    since the batch shrinks.

    Args:
        next_token_logits: takes the last tokens int32 `(A * K, 1)` and both states, and returns logits `(A * K, V)` for
            the next tokens and the new target state. It is first called with BOS.
        source_state: any nested structure of tensors `(B, ...)`, with a row for each sentence.
        target_state: any nested structure of tensors `(B * K, ...)`, with a row for each hypothesis, or scalars.
        max_lengths: int32 `(B,)`, the maximum number of tokens of each target, EOS included.
        length: L, at least the largest of `max_lengths`.
        settings: `BeamSettings`.
        coverage: takes both states and returns the attention that each source token received from each hypothesis,
            float32 `(A * K, S)`, 1 for padding. Needed for a coverage penalty only.
        prefix: int32 `(B, L)`, the tokens with which each target begins, then PAD; by default none.
        constraint: what hypotheses keep to besides; by default nothing.

    Raises:
        ValueError: a coverage penalty without `coverage`.
    """
    if settings.coverage_penalty and coverage is None:
        raise ValueError("coverage: expected a function, because settings have a coverage penalty, found None")

    def extend(state):
        last = ops.take(state.live.ids, ops.maximum(state.step - 1, 0), axis=2)
        last = ops.reshape(ops.where(state.step > 0, last, BOS), (-1, 1))
        target_state, kept = state.target_state
        logits, target_state = next_token_logits(last, state.source_state, target_state)
        kept = constraint.advance(kept, last[:, 0], state.rows)
        is_last = state.step + 1 >= ops.take(max_lengths, state.rows) if settings.force_eos else None
        given = None if prefix is None else ops.take(ops.take(prefix, state.step, axis=1), state.rows)
        state = state._replace(target_state=(target_state, kept))
        candidates, parents, tokens = extend_hypotheses(logits, state, settings, constraint, is_last, given)
        state = state._replace(step=state.step + 1)
        bonus = None
        if coverage is not None and settings.coverage_penalty:
            attention = coverage(state.source_state, target_state)
            bonus = settings.coverage_bonus(ops.reshape(attention, (dynamic_shape(state.rows)[0], settings.size, -1)))
        ends = ops.equal(tokens, EOS)
        finished = finish_hypotheses(state, candidates, parents, ends, bonus, settings)
        open_scores = constraint.open_scores(candidates.scores, ends, settings.size)
        live, indices = candidates._replace(scores=open_scores).select_best(settings.size)
        return drop_finished(state, finished, live, gather_columns(parents, indices), max_lengths, settings)

    state = start_beam(source_state, (target_state, constraint.start()), max_lengths, length, settings.size)
    (state,) = repeat_while(lambda state: dynamic_shape(state.rows)[0] > 0, lambda state: (extend(state),), (state,))
    return Hypotheses(*(x[:, : settings.best] for x in state.finished))

"""Beam search: keeps the best hypotheses of each sentence and extends a whole batch in step.

Sutskever et al. 2014, section 3.2; length and coverage penalties of GNMT (Wu et al. 2016, equation 14).

Letters: B batch, A sentences still searched, K beam size, N best hypotheses asked for, P finished ones that are kept, L
maximum length of a target, V vocabulary, S source positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..model.interface import rows_for_each
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .constraints import Constraint, ban_early_end, ban_repeated_ngrams, ban_special_tokens, force_end, force_tokens
from .lexical_constraints import Ban, LexicalConstraint
from .search import (
    MINUS_INFINITY,
    Hypotheses,
    branch,
    concatenate,
    fill_up,
    gather_columns,
    gather_rows,
    is_number,
    repeat_while,
    write_at,
)

OWN_POWERS = (0.5, 2.0, 3.0)
"""The length penalties for which TensorFlow replaces the power in a graph by a root or products, which round
differently, if they are constants of the graph."""


@dataclass(frozen=True)
class BeamSettings:
    """The settings of a beam search.

    Args:
        size: K, how many hypotheses of each sentence are extended at every step.
        best: N, how many finished hypotheses of each sentence are returned, at most 2 K - 1: when the last of a full
            beam ends, as many can have ended.
        length_penalty: alpha. A hypothesis of n tokens, EOS included, scores its log-probability divided by
            `((5 + n) / 6) ^ alpha`: 0 favours short ones, as every token lowers the score; 1 is close to the mean per
            token.
        coverage_penalty: beta. `beta * sum_s log(min(1, attention that source token s received))` is added to the score
            of a finished hypothesis.
        min_length: the minimum number of tokens before EOS.
        no_repeat_ngram: no n-gram of this length occurs twice in a hypothesis; 0 allows all.
        divisor: by what log-probabilities are divided, one of `choices.translation.LENGTH_DIVISORS`; above it is gnmt.
        end: when the search of a sentence ends, one of `config.choices.translation.BEAM_ENDS`.
        force_eos: whether the last of the tokens that a target may have is EOS, as certain.
        renormalize: whether hypotheses are ranked by the probability among the tokens that may come next, and not among
            all tokens.
    """

    size: int = 5
    best: int = 1
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0
    divisor: str = "gnmt"
    end: str = "full"
    force_eos: bool = False
    renormalize: bool = False

    @property
    def numbers(self) -> dict[str, Any]:
        """See `search.Search`."""
        numbers: dict[str, Any] = {}
        if self.length_penalty not in OWN_POWERS:
            numbers["length_penalty"] = np.float32(self.length_penalty)
        if self.coverage_penalty:
            numbers["coverage_penalty"] = np.float32(self.coverage_penalty)
        if self.min_length:
            numbers["min_length"] = np.int32(self.min_length)
        return numbers

    @property
    def uses_coverage(self) -> bool:
        """True if there is a coverage penalty."""
        return not is_number(self.coverage_penalty, 0)

    @property
    def places(self):
        """P, how many finished hypotheses of a sentence are kept."""
        return max(self.size, self.best)

    def length_divisor(self, length):
        """Returns the divisor of the log-probability of a hypothesis of `length` tokens."""
        tokens = ops.cast(length, "float32")
        return (tokens if self.divisor == "power" else (5.0 + tokens) / 6.0) ** self.length_penalty

    def coverage_bonus(self, attention):
        """Returns what is added to a hypothesis' score for its attention `(..., S)`: `(...)`, never positive."""
        return self.coverage_penalty * ops.sum(ops.log(ops.clip(attention, 1e-9, 1.0)), axis=-1)


@dataclass(frozen=True)
class BeamSearch:
    """The N best hypotheses of a beam: see `beam_search`.

    Args:
        settings: `BeamSettings`.
        ban: the phrases that no target contains, if any.
    """

    settings: BeamSettings
    ban: Ban | None = None

    @property
    def numbers(self) -> dict[str, Any]:
        """See `search.Search`."""
        return self.settings.numbers

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """See `search.Search`."""
        return replace(self, settings=replace(self.settings, **numbers))

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        uses_coverage = self.settings.uses_coverage
        hypotheses = dynamic_shape(max_lengths)[0] * self.settings.size

        def step(tokens, memory, state):
            cache, attention = state
            output = model.decode(tokens, memory, cache=cache, training=False)
            if uses_coverage:
                weights = ops.stack([ops.mean(layer[:, :, -1], axis=1) for layer in output.cross])
                attention = attention + ops.mean(weights, axis=0)
            return output.logits[:, -1], (output.cache, attention)

        def coverage(memory, state):
            # Padding counts as covered.
            padding = ops.logical_not(memory.mask[:, 0, 0])
            return ops.where(rows_for_each(padding, dynamic_shape(state[1])[0]), 1.0, state[1])

        sources = dynamic_shape(memory.mask)[-1] if uses_coverage else 0
        state = (rows_for_each(model.start_cache(memory), hypotheses), ops.zeros((hypotheses, sources)))
        constraint = None
        if self.ban or required:
            settings = self.settings
            constraint = LexicalConstraint(self.ban, required, max_lengths, settings.size, settings.force_eos)
        return beam_search(step, memory, state, max_lengths, length, self.settings, coverage, prefix, constraint)


def beam_search(
    next_token_logits: Callable,
    source_state,
    target_state,
    max_lengths,
    length,
    settings: BeamSettings,
    coverage: Callable | None = None,
    prefix=None,
    constraint: Constraint | None = None,
) -> Hypotheses:
    """Extends K hypotheses of every sentence by one token at a time.

    Each step looks at the 2 K likeliest extensions of a sentence's hypotheses. Those of the first K that end in EOS are
    stored as finished, with their score; the first K of the others stay live.

    A sentence is done when no live hypothesis can still reach the N best, or at its maximum length, where live
    hypotheses fill the remaining places. It is also done when K hypotheses are finished; with `end="worst"` only if the
    worst of them beats the best live one at its present length. A sentence that is done leaves the batch, so in a graph
    the size of the batch must be unknown.

    Ties go to the better hypothesis and the lower id, so equal inputs give equal outputs. With K = 1 this is greedy
    search.

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
    """
    constraint = constraint or Constraint()

    def extend(state):
        last = ops.take(state.live.ids, ops.maximum(state.step - 1, 0), axis=2)
        last = ops.reshape(ops.where(state.step > 0, last, BOS), (-1, 1))
        logits, target_state = next_token_logits(last, state.source_state, state.target_state)
        kept = constraint.advance(state.kept, last[:, 0], state.rows)
        is_last = state.step + 1 >= ops.take(max_lengths, state.rows) if settings.force_eos else None
        given = None if prefix is None else ops.take(ops.take(prefix, state.step, axis=1), state.rows)
        state = state._replace(target_state=target_state, kept=kept)
        candidates, parents, tokens = extend_hypotheses(logits, state, settings, constraint, is_last, given)
        state = state._replace(step=state.step + 1)
        bonus = None
        if settings.uses_coverage:
            assert coverage is not None
            attention = coverage(state.source_state, target_state)
            bonus = settings.coverage_bonus(ops.reshape(attention, (dynamic_shape(state.rows)[0], settings.size, -1)))
        ends = ops.equal(tokens, EOS)
        finished = finish_hypotheses(state, candidates, parents, ends, bonus, settings)
        live, indices = keep_live(candidates, ends, settings.size)
        return drop_finished(state, finished, live, gather_columns(parents, indices), max_lengths, settings)

    state = start_beam(source_state, target_state, constraint.start(), max_lengths, length, settings)
    (state,) = repeat_while(lambda state: dynamic_shape(state.rows)[0] > 0, lambda state: (extend(state),), (state,))
    return Hypotheses(*(x[:, : settings.best] for x in state.finished))


class BeamState(NamedTuple):
    """The search between two steps.

    - step: how many tokens every live hypothesis has.
    - rows: int32 `(A,)`, the sentences of the batch that are still searched.
    - live: `Hypotheses` `(A, K, ...)` that are still extended, scored by log-probability.
    - finished: `Hypotheses` `(B, P, ...)` that have ended, of all sentences of the batch, scored as they are ranked.
    - source_state: of the A sentences.
    - target_state: of the A * K live hypotheses.
    - kept: the constraint's state of the same.
    """

    step: Any
    rows: Any
    live: Hypotheses
    finished: Hypotheses
    source_state: Any
    target_state: Any
    kept: Any


def start_beam(source_state, target_state, kept, max_lengths, length, settings: BeamSettings) -> BeamState:
    """Returns the state before the first step: no token, nothing finished, and only sentences that may have a token. Of
    the others the empty hypothesis is finished, and certain."""
    batch = dynamic_shape(max_lengths)[0]
    rows = ops.cast(ops.nonzero(max_lengths > 0)[0], "int32")

    def empty(count):
        # Equal hypotheses would stay equal, so only the first starts.
        scores = ops.broadcast_to(ops.where(ops.arange(count) == 0, 0.0, MINUS_INFINITY), (batch, count))
        return Hypotheses(ops.full((batch, count, length), PAD, "int32"), ops.zeros((batch, count, length)), scores)

    may_have_tokens = ops.expand_dims(max_lengths > 0, 1)
    finished = empty(settings.places)
    finished = finished._replace(scores=ops.where(may_have_tokens, MINUS_INFINITY, finished.scores))
    size = settings.size
    of_rows = ops.reshape(ops.expand_dims(rows * size, 1) + ops.arange(size, dtype="int32"), (-1,))
    return BeamState(
        ops.zeros((), "int32"),
        rows,
        Hypotheses(*gather_rows(empty(size), rows)),
        finished,
        branch(ops.all(may_have_tokens), lambda: source_state, lambda: gather_rows(source_state, rows)),
        *gather_rows((target_state, kept), of_rows),
    )


def extend_hypotheses(
    logits, state: BeamState, settings: BeamSettings, constraint: Constraint, is_last=None, given=None
):
    """Finds the 2 K likeliest extensions of a sentence's K live hypotheses by one token.

    Args:
        logits: `(A * K, V)`.
        state: before the step.
        settings: `BeamSettings`.
        constraint: what hypotheses keep to besides.
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
    allowed = constraint.allow(allowed, scores, state.kept, state.step, state.rows)
    if settings.renormalize:
        allowed = ops.log_softmax(allowed)
    if is_last is not None:
        allowed = force_end(allowed, ops.repeat(is_last, size))
    if given is not None:
        allowed = force_tokens(allowed, scores, ops.repeat(given, size))
    totals = ops.reshape(state.live.scores, (-1, 1)) + allowed
    totals = ops.reshape(totals, (-1, size, vocabulary))
    totals, indices = constraint.best_extensions(totals, state.kept, state.rows, 2 * size)
    parents, tokens = indices // vocabulary, indices % vocabulary
    token_scores = ops.take_along_axis(ops.reshape(scores, (-1, size * vocabulary)), indices, axis=1)
    candidates = Hypotheses(
        write_at(gather_columns(state.live.ids, parents), state.step, tokens),
        write_at(gather_columns(state.live.log_probabilities, parents), state.step, token_scores),
        totals,
    )
    return candidates, parents, tokens


def finish_hypotheses(state: BeamState, candidates: Hypotheses, parents, ends, bonus, settings: BeamSettings):
    """Returns the best P finished hypotheses `(A, P, ...)`, among the ones finished before this step and those first K
    candidates that end.

    Args:
        state: after the step.
        candidates, parents: see `extend_hypotheses`.
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
    return concatenate(finished, candidates._replace(scores=scores)).select_best(settings.places)[0]


def keep_live(candidates: Hypotheses, ends, size):
    """Returns the first K of the candidates `(A, 2 K, ...)` that do not end, and where they stood, int32 `(A, K)`."""
    stays = ops.logical_not(ends)
    is_first = ops.cumsum(ops.cast(stays, "float32"), axis=1) <= size  # of int32, it would leave a GPU
    scores = ops.where(ops.logical_and(stays, is_first), candidates.scores, MINUS_INFINITY)
    return candidates._replace(scores=scores).select_best(size)


def drop_finished(state, finished, live, parents, max_lengths, settings) -> BeamState:
    """Stores the finished hypotheses, `(A, P, ...)`, and drops the sentences that need no further step; each of the
    live ones, `(A, K, ...)`, extends one of `parents`, int32 `(A, K)`."""
    longest = ops.take(max_lengths, state.rows)
    at_longest = state.step >= longest
    divisor = settings.length_divisor(ops.expand_dims(longest, 1))
    finished = fill_up(finished, live._replace(scores=live.scores / divisor), at_longest)
    # No token adds probability and none takes coverage away, so no live hypothesis can score higher than this.
    reachable = (live.scores[:, :1] / divisor)[:, 0]
    last = finished.scores[:, settings.size - 1]
    beam_full = ops.greater(last, MINUS_INFINITY)
    if settings.end == "worst":
        best_live = live.scores[:, 0] / settings.length_divisor(state.step)
        beam_full = ops.logical_and(beam_full, last >= best_live)
    out_of_reach = finished.scores[:, settings.best - 1] >= reachable
    done = ops.logical_or(at_longest, ops.logical_or(beam_full, out_of_reach))
    indices = (ops.expand_dims(state.rows, 1),) * 3
    stored = (ops.scatter_update(*update) for update in zip(state.finished, indices, finished, strict=True))
    remaining = ops.cast(ops.nonzero(ops.logical_not(done))[0], "int32")
    origins = ops.take(parents, remaining, axis=0) + settings.size * ops.expand_dims(remaining, 1)
    origins = ops.reshape(origins, (-1,))
    return BeamState(
        state.step,
        ops.take(state.rows, remaining),
        Hypotheses(*gather_rows(live, remaining)),
        Hypotheses(*stored),
        branch(ops.any(done), lambda: gather_rows(state.source_state, remaining), lambda: state.source_state),
        *gather_rows((state.target_state, state.kept), origins),
    )

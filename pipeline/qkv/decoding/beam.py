"""Beam search: extends the best hypotheses of each sentence, a whole batch at a time, by one token at each step.

Sutskever et al. 2014, section 3.2; length and coverage penalties of GNMT (Wu et al. 2016, equation 14).

Letters: B batch, A sentences still searched, K beam size, W live hypotheses of a sentence (1 before the first step,
then K), N hypotheses to return, P finished hypotheses to store, L maximum length of a target, V vocabulary, S source
positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape, reshape
from ..model.interface import rows_for_each
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .constraints import Constraint, ban_early_end, ban_repeated_ngrams, ban_special_tokens, force_end, force_tokens
from .lexical_constraints import Ban, LexicalConstraint
from .search import (
    MINUS_INFINITY,
    Hypotheses,
    branch,
    fill_with_live,
    gather_columns,
    gather_rows,
    is_number,
    join_hypotheses,
    log_sum_exp,
    repeat_while,
    write_at,
)

__all__ = ["BeamSearch", "BeamSettings"]

CONSTANT_POWERS = (0.5, 2.0, 3.0)
"""Length penalties that stay constants of the graph. TensorFlow replaces a power by such a constant with a root or with
products, which round differently from a power by an input."""


@dataclass(frozen=True)
class BeamSettings:
    """The settings of a beam search.

    Args:
        size: K, the number of hypotheses of each sentence that are extended at every step.
        best: N, the number of hypotheses of each sentence that are returned, at most 2 K - 1. More cannot be finished:
            at most K - 1 hypotheses are finished before the last step of a sentence, and at most K in this step.
        length_penalty: alpha. The score of a hypothesis of n tokens, EOS included, is its log-probability divided by
            `((5 + n) / 6) ^ alpha`. 0 favours short hypotheses, because every token lowers the score. 1 comes close to
            the mean log-probability of a token.
        coverage_penalty: beta. `beta * sum_s log(min(1, attention that source token s received))` is added to the score
            of a finished hypothesis. 0 adds nothing.
        min_length: the minimum number of tokens before EOS.
        no_repeat_ngram: the length n of n-grams that may occur only once in a hypothesis. 0 allows repetitions.
        divisor: the function of the length by which log-probabilities are divided, a key of
            `config.choices.translation.LENGTH_DIVISORS`. The formula above is `gnmt`.
        end: the condition under which the search of a sentence ends, a key of `config.choices.translation.BEAM_ENDS`.
        force_eos: if True, a hypothesis that reaches the maximum length gets EOS as its last token. This token has
            probability 1 in the score.
        renormalize: if True, the probabilities of the allowed next tokens are divided by their sum before hypotheses
            are ranked.
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
        """The settings that a graph takes as inputs, by name; each value is a NumPy scalar."""
        numbers: dict[str, Any] = {}
        if self.length_penalty not in CONSTANT_POWERS:
            numbers["length_penalty"] = np.float32(self.length_penalty)
        if self.coverage_penalty:
            numbers["coverage_penalty"] = np.float32(self.coverage_penalty)
        if self.min_length:
            numbers["min_length"] = np.int32(self.min_length)
        return numbers

    @property
    def uses_coverage(self) -> bool:
        """True if there is a coverage penalty; also True if beta is a tensor."""
        return not is_number(self.coverage_penalty, 0)

    @property
    def finished_size(self):
        """P, the number of finished hypotheses of a sentence that are stored."""
        return max(self.size, self.best)

    def length_divisor(self, length):
        """Returns the divisor of the log-probability of a hypothesis, float32 of the shape of `length`.

        Args:
            length: the number of tokens of the hypothesis, a number or a tensor.
        """
        tokens = ops.cast(length, "float32")
        return (tokens if self.divisor == "power" else (5.0 + tokens) / 6.0) ** self.length_penalty

    def coverage_term(self, attention):
        """Returns the coverage penalty of each hypothesis, a term of its score.

        Args:
            attention: the attention that each source token received, float32 `(..., S)`.

        Returns:
            float32 `(...)`, 0 or negative. It is added to the score.
        """
        return self.coverage_penalty * ops.sum(ops.log(ops.clip(attention, 1e-9, 1.0)), axis=-1)


@dataclass(frozen=True)
class BeamSearch:
    """Beam search with a model: at every step the K best hypotheses of a sentence are extended by one token.

    A hypothesis that ends in EOS is finished. The search of a sentence ends when no other hypothesis can be among the N
    best, or as the setting `end` says. It is a `decoding.search.Search`.

    Args:
        settings: the settings of the beam.
        ban: the phrases that no target may contain; None if there are none.
    """

    settings: BeamSettings
    ban: Ban | None = None

    @property
    def count(self) -> int:
        """The number of hypotheses of a sentence that are extended at each step."""
        return self.settings.size

    @property
    def numbers(self) -> dict[str, Any]:
        """The settings that a graph takes as inputs, by name; each value is a NumPy scalar."""
        return self.settings.numbers

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """Returns a copy of the search with other values of settings.

        Args:
            numbers: the new values, NumPy scalars or tensors, by the name of the setting.
        """
        return replace(self, settings=replace(self.settings, **numbers))

    def __call__(self, model, memory, max_lengths, length, prefix=None, required=None):
        uses_coverage = self.settings.uses_coverage
        batch = dynamic_shape(max_lengths)[0]

        def step(tokens, memory, state):
            cache, attention = state
            output = model.decode(tokens, memory, cache=cache, training=False)
            if uses_coverage:
                weights = ops.stack([ops.mean(layer[:, :, -1], axis=1) for layer in output.cross])
                attention = attention + ops.mean(weights, axis=0)
            return output.logits[:, -1], (output.cache, attention)

        def coverage(memory, state):
            # Padding counts as covered, so that it is not penalised.
            padding = ops.logical_not(memory.mask[:, 0, 0])
            return ops.where(rows_for_each(padding, dynamic_shape(state[1])[0]), 1.0, state[1])

        sources = dynamic_shape(memory.mask)[-1] if uses_coverage else 0
        state = (model.start_cache(memory), ops.zeros((batch, sources)))
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
    """Returns the best hypotheses of each sentence. It extends hypotheses by one token at a time.

    A search begins with one empty hypothesis of each sentence, so its first step has a K-th of the rows of the others.
    Each step takes the 2 K likeliest extensions of a sentence's live hypotheses as candidates. Of the first K
    candidates, those that end in EOS are stored as finished, with their score. The first K candidates that do not end
    in EOS stay live.

    The search of a sentence ends in three cases:

    - No live hypothesis can still reach the N best.
    - The sentence is at its maximum length. Live hypotheses are then returned in place of missing finished ones.
    - K hypotheses are finished. With `end="worst"`, the worst of them must also beat the best live one at its present
      length.

    The sentence then leaves the batch, so in a graph the size of the batch must be unknown.

    Ties go to the better hypothesis and then to the lower id, so equal inputs give equal outputs. With K = 1 this is
    greedy search.

    Args:
        next_token_logits: a function `(last tokens, source state, target state) -> (logits, new target state)`. The
            tokens are int32 `(A * W, 1)`, at first BOS, and the logits of the next tokens `(A * W, V)`.
        source_state: any nested structure of tensors `(B, ...)`, with a row for each sentence.
        target_state: any nested structure of tensors `(B, ...)`, with a row for each sentence's empty hypothesis, or
            scalars. Later it has a row for each hypothesis, `(A * K, ...)`.
        max_lengths: the maximum number of tokens of each target, EOS included, int32 `(B,)`.
        length: L, at least the largest of `max_lengths`.
        settings: the settings of the beam.
        coverage: a function `(source state, target state) -> attention`. It returns the attention that each source
            token received from each hypothesis, float32 `(A * W, S)`, 1 for padding. Only a coverage penalty needs it.
        prefix: the tokens with which each target begins, then PAD, int32 `(B, L)`; None if there are no prefixes.
        constraint: a further constraint on next tokens; None if there is none.

    Returns:
        `Hypotheses` `(B, N, ...)`, the best first.

    Raises:
        ValueError: JAX traces the function.
    """
    constraint = constraint or Constraint()

    def extend(state):
        last = ops.take(state.live.ids, ops.maximum(state.step - 1, 0), axis=2)
        last = reshape(ops.where(state.step > 0, last, BOS), (-1, 1))
        logits, target_state = next_token_logits(last, state.source_state, state.target_state)
        constraint_state = constraint.advance(state.constraint_state, last[:, 0], state.rows)
        is_last = state.step + 1 >= gather_rows(max_lengths, state.rows) if settings.force_eos else None
        forced_tokens = None if prefix is None else ops.take(ops.take(prefix, state.step, axis=1), state.rows)
        state = state._replace(target_state=target_state, constraint_state=constraint_state)
        candidates, parents, tokens = extend_hypotheses(logits, state, settings, constraint, is_last, forced_tokens)
        state = state._replace(step=state.step + 1)
        coverage_terms = None
        if settings.uses_coverage:
            assert coverage is not None
            attention = coverage(state.source_state, target_state)
            attention = reshape(attention, (*dynamic_shape(state.live.scores), -1))
            coverage_terms = settings.coverage_term(attention)
        ends = ops.equal(tokens, EOS)
        finished = finish_hypotheses(state, candidates, parents, ends, coverage_terms, settings)
        live, indices = keep_live(candidates, ends, settings.size)
        return drop_finished(state, finished, live, gather_columns(parents, indices), max_lengths, settings)

    state = start_beam(source_state, target_state, constraint.start(), max_lengths, length, settings)
    (state,) = repeat_while(lambda state: dynamic_shape(state.rows)[0] > 0, lambda state: (extend(state),), (state,))
    return Hypotheses(*(x[:, : settings.best] for x in state.finished))


class BeamState(NamedTuple):
    """The state of a beam search between two steps.

    - step: the number of tokens of every live hypothesis, an int32 scalar.
    - rows: the indices of the sentences that are still searched, int32 `(A,)`.
    - live: the hypotheses that are still extended, `Hypotheses` `(A, W, ...)`; the score is the log-probability.
    - finished: the hypotheses that have ended, for all sentences of the batch, `Hypotheses` `(B, P, ...)`; the score
      includes the length and coverage penalties.
    - source_state: the state of the A sentences, see `beam_search`.
    - target_state: the state of the A * W live hypotheses, see `beam_search`.
    - constraint_state: the constraint's state of the A * W live hypotheses.
    """

    step: Any
    rows: Any
    live: Hypotheses
    finished: Hypotheses
    source_state: Any
    target_state: Any
    constraint_state: Any


def start_beam(source_state, target_state, constraint_state, max_lengths, length, settings: BeamSettings) -> BeamState:
    """Returns the state before the first step, with an empty hypothesis of each sentence.

    A sentence whose maximum length is 0 is not searched. It has a finished, empty hypothesis of score 0.

    Args:
        source_state, target_state, max_lengths, length, settings: see `beam_search`.
        constraint_state: the result of `decoding.constraints.Constraint.start`.
    """
    batch = dynamic_shape(max_lengths)[0]
    rows = ops.cast(ops.nonzero(max_lengths > 0)[0], "int32")

    def empty(count):
        scores = ops.broadcast_to(ops.where(ops.arange(count) == 0, 0.0, MINUS_INFINITY), (batch, count))
        return Hypotheses(ops.full((batch, count, length), PAD, "int32"), ops.zeros((batch, count, length)), scores)

    may_have_tokens = ops.expand_dims(max_lengths > 0, 1)
    finished = empty(settings.finished_size)
    finished = finished._replace(scores=ops.where(may_have_tokens, MINUS_INFINITY, finished.scores))
    live = empty(1 + 0 * batch)  # not a constant of the graph, because it grows to K
    states = source_state, target_state, constraint_state
    all_searched = ops.all(may_have_tokens)
    states = branch(all_searched, lambda: states, lambda: gather_rows(states, rows))
    return BeamState(ops.zeros((), "int32"), rows, Hypotheses(*gather_rows(live, rows)), finished, *states)


def extend_hypotheses(
    logits, state: BeamState, settings: BeamSettings, constraint: Constraint, is_last=None, forced_tokens=None
):
    """Returns the 2 K likeliest extensions of each sentence's live hypotheses by one token.

    Args:
        logits: the logits of the next tokens, `(A * W, V)`.
        state: the state before the step.
        settings: the settings of the beam.
        constraint: a further constraint on next tokens.
        is_last: True if the next token of a sentence must be EOS, bool `(A,)`; None if EOS is not forced.
        forced_tokens: the next token of each sentence, int32 `(A,)`, PAD for a free choice; None if all are free.

    Returns:
        `(candidates, parents, tokens)`: the extended hypotheses, the likeliest first, `Hypotheses` `(A, 2 K, ...)`
        whose score is the log-probability; the index of the live hypothesis that each extends, int32 `(A, 2 K)`; and
        the token that it adds, int32 `(A, 2 K)`.
    """
    logits = ops.cast(logits, "float32")
    rows, vocabulary = dynamic_shape(logits)
    sentences, width, length = dynamic_shape(state.live.ids)
    # A log-probability is a logit minus a number that its whole row shares. So logits are banned and compared, and the
    # number is subtracted from the few that are chosen.
    normalizers = log_sum_exp(logits)
    allowed = ban_early_end(logits, state.step, settings.min_length)
    history = reshape(state.live.ids, (-1, length))
    allowed = ban_repeated_ngrams(allowed, history, state.step, settings.no_repeat_ngram)
    allowed = constraint.allow(allowed, logits, state.constraint_state, state.step, state.rows)
    ranking_normalizers = log_sum_exp(ban_special_tokens(allowed)) if settings.renormalize else normalizers
    if is_last is not None:
        allowed = force_end(allowed, rows_for_each(is_last, rows), certain=ranking_normalizers)
    if forced_tokens is not None:
        forced_tokens = rows_for_each(forced_tokens, rows)
        allowed = force_tokens(allowed, logits, forced_tokens)
        is_free = ops.expand_dims(ops.equal(forced_tokens, PAD), 1)
        ranking_normalizers = ops.where(is_free, ranking_normalizers, normalizers)
    offsets = state.live.scores - reshape(ranking_normalizers, (sentences, width))
    allowed = reshape(allowed, (sentences, width, vocabulary))
    totals, indices = constraint.best_extensions(
        allowed, offsets, state.constraint_state, state.rows, 2 * settings.size
    )
    parents = indices // vocabulary
    tokens = indices % vocabulary
    token_scores = gather_columns(reshape(logits, (sentences, -1)), indices)
    token_scores = token_scores - gather_columns(reshape(normalizers, (sentences, width)), parents)
    candidates = Hypotheses(
        write_at(gather_columns(state.live.ids, parents), state.step, tokens),
        write_at(gather_columns(state.live.log_probabilities, parents), state.step, token_scores),
        totals,
    )
    return candidates, parents, tokens


def finish_hypotheses(state: BeamState, candidates: Hypotheses, parents, ends, coverage_terms, settings: BeamSettings):
    """Returns the best P finished hypotheses of each sentence.

    It chooses from the hypotheses that were finished in earlier steps, and from the first K candidates, of which it
    takes those that end in EOS.

    Args:
        state: the state, with the number of tokens of the candidates as `step`.
        candidates: the extended hypotheses, see `extend_hypotheses`.
        parents: the index of the live hypothesis that each candidate extends, int32 `(A, 2 K)`.
        ends: whether each candidate ends in EOS, bool `(A, 2 K)`.
        coverage_terms: the coverage penalty of each live hypothesis, float32 `(A, W)`, which is added to the scores of
            its candidates; None if there is no coverage penalty.
        settings: the settings of the beam.

    Returns:
        `Hypotheses` `(A, P, ...)`, the best first.
    """
    scores = candidates.scores / settings.length_divisor(state.step)
    if coverage_terms is not None:
        scores = scores + gather_columns(coverage_terms, parents)
    among_first = ops.arange(2 * settings.size) < settings.size
    scores = ops.where(ops.logical_and(ends, among_first), scores, MINUS_INFINITY)
    finished = Hypotheses(*gather_rows(state.finished, state.rows))
    joined = join_hypotheses(finished, candidates._replace(scores=scores))
    return joined.select_best(settings.finished_size)[0]


def keep_live(candidates: Hypotheses, ends, size):
    """Returns the first K candidates of each sentence that do not end in EOS.

    Args:
        candidates: `Hypotheses` `(A, 2 K, ...)`, the likeliest first.
        ends: whether each candidate ends in EOS, bool `(A, 2 K)`.
        size: K.

    Returns:
        `(live, indices)`: `Hypotheses` `(A, K, ...)`, and the index of each among the candidates, int32 `(A, K)`.
    """
    stays = ops.logical_not(ends)
    is_first = ops.cumsum(ops.cast(stays, "float32"), axis=1) <= size  # a GPU has no cumulative sum of int32
    scores = ops.where(ops.logical_and(stays, is_first), candidates.scores, MINUS_INFINITY)
    return candidates._replace(scores=scores).select_best(size)


def drop_finished(state, finished, live, parents, max_lengths, settings) -> BeamState:
    """Returns the state after a step: with the finished hypotheses, and without the sentences whose search ends.

    Args:
        state: the state before the step, but with the number of tokens after the step as `step`.
        finished: the finished hypotheses, `Hypotheses` `(A, P, ...)`.
        live: the live hypotheses, `Hypotheses` `(A, K, ...)`.
        parents: the index of the previous live hypothesis that each live one extends, int32 `(A, K)`.
        max_lengths: the maximum number of tokens of each target, int32 `(B,)`.
        settings: the settings of the beam.
    """
    longest = gather_rows(max_lengths, state.rows)
    at_longest = state.step >= longest
    divisor = settings.length_divisor(ops.expand_dims(longest, 1))
    finished = fill_with_live(finished, live._replace(scores=live.scores / divisor), at_longest)
    # A further token cannot raise the log-probability, and the coverage penalty is at most 0. So this is an upper bound
    # of the score of every live hypothesis.
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
    width = dynamic_shape(state.live.scores)[1]
    origins = gather_rows(parents, remaining) + width * ops.expand_dims(remaining, 1)
    origins = reshape(origins, (-1,))
    return BeamState(
        state.step,
        gather_rows(state.rows, remaining),
        Hypotheses(*gather_rows(live, remaining)),
        Hypotheses(*stored),
        branch(ops.any(done), lambda: gather_rows(state.source_state, remaining), lambda: state.source_state),
        *gather_rows((state.target_state, state.constraint_state), origins),
    )

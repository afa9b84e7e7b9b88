"""Beam search: the best of several hypotheses for each sentence, extended in step for a whole batch at once.

Sutskever et al. 2014, section 3.2; length and coverage penalties of GNMT (Wu et al. 2016, equation 14).

Letters: B batch, A sentences still searched, K beam size, N best hypotheses asked for, L most tokens of a target, V
vocabulary, S source positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras import ops

from ..text.tokenizer import BOS, EOS, PAD
from .constraints import NEVER, ban_early_end, ban_never_chosen, ban_repeated_ngrams
from .greedy import put
from .hypotheses import Hypotheses, concatenate, fill_up, largest_of_many, pick, take_rows


@dataclass(frozen=True)
class BeamSettings:
    """How hypotheses are searched and ranked.

    Args:
        size: K, the hypotheses of each sentence that go on at every step.
        best: N, how many ended hypotheses of each sentence are wanted, at most K.
        length_penalty: alpha. A hypothesis of n tokens, EOS among them, scores its log-probability divided by
            `((5 + n) / 6) ^ alpha`: 0 favours short ones, as every token costs; 1 nearly takes the mean.
        coverage_penalty: beta. `beta * sum_s log(min(1, attention that source token s got))` is added to the score
            of an ended hypothesis.
        min_length: the fewest tokens before EOS.
        no_repeat_ngram: no run of so many tokens stands twice in a hypothesis; 0 allows all.

    Raises:
        ValueError: more hypotheses wanted than there are.
    """

    size: int = 5
    best: int = 1
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.best <= self.size:
            raise ValueError(f"best: between 1 and the size of the beam, {self.size}. Received: {self.best}")

    def length_divisor(self, length):
        """What the log-probability of a hypothesis of so many tokens is divided by."""
        return ((5.0 + ops.cast(length, "float32")) / 6.0) ** self.length_penalty


class _Search(NamedTuple):
    """Between two steps.

    - step: tokens of every hypothesis so far.
    - rows: int32 `(A,)`, which sentences of the batch are still searched.
    - growing: `Hypotheses` that go on, `(A, K, ...)`, scored by log-probability.
    - ended: `Hypotheses` of all sentences that do not, `(B, K, ...)`.
    - source_state: of the A sentences.
    - target_state: of the A * K hypotheses that go on.
    """

    step: Any
    rows: Any
    growing: Hypotheses
    ended: Hypotheses
    source_state: Any
    target_state: Any


def beam_search(
    next_token_logits: Callable,
    source_state,
    target_state,
    max_lengths,
    length,
    settings: BeamSettings,
    coverage: Callable | None = None,
) -> Hypotheses:
    """Extends K hypotheses of every sentence by one token at a time.

    Of the 2 K likeliest extensions of a sentence's hypotheses, those of the first K that end are put aside with their
    score, and the first K of the others go on. A sentence is finished when K hypotheses have ended, when none that goes
    on could still come among the N best, or at its longest length, where hypotheses without an end fill up what is
    missing. It then leaves the batch. Ties go to the better hypothesis and the lower id, so that the same input gives
    the same output. With K = 1 this is greedy search. A graph must not know the size of its batch, since it shrinks.

    Args:
        next_token_logits: takes the last tokens int32 `(A * K, 1)` and both states, and returns logits `(A * K, V)` for
            the next tokens and the new target state. It is first called with BOS.
        source_state: anything nested of tensors `(B, ...)`: what belongs to a sentence.
        target_state: anything nested of tensors `(B * K, ...)` or without axes: what belongs to a hypothesis.
        max_lengths: int32 `(B,)`, the most tokens of each target, EOS among them.
        length: L, at least the largest of `max_lengths`.
        settings: `BeamSettings`.
        coverage: finds in both states the attention that each source token got from each hypothesis, float32
            `(A * K, S)`, 1 for padding. Needed for a coverage penalty only.

    Raises:
        ValueError: a coverage penalty without `coverage`.
    """
    if settings.coverage_penalty and coverage is None:
        raise ValueError("coverage: needed for a coverage penalty")

    def unfinished(search):
        return ops.shape(search.rows)[0] > 0

    def extend(search):
        last = ops.take(search.growing.ids, ops.maximum(search.step - 1, 0), axis=2)
        last = ops.reshape(ops.where(search.step > 0, last, BOS), (-1, 1))
        logits, target_state = next_token_logits(last, search.source_state, search.target_state)
        candidates, parents, tokens = extensions(logits, search, settings)
        search = search._replace(step=search.step + 1, target_state=target_state)
        bonus = coverage_bonus(coverage, search, settings) if settings.coverage_penalty else None
        ends = ops.equal(tokens, EOS)
        ended = finish_hypotheses(search, candidates, parents, ends, bonus, settings)
        growing, which = candidates._replace(scores=ops.where(ends, NEVER, candidates.scores)).best(settings.size)
        return drop_finished(search, ended, growing, pick(parents, which), max_lengths, settings)

    batch = ops.shape(max_lengths)[0]
    none = Hypotheses(
        ops.full((batch, settings.size, length), PAD, "int32"),
        ops.zeros((batch, settings.size, length)),
        ops.full((batch, settings.size), NEVER),
    )
    # K times the same would stay the same, so only one starts.
    first = ops.where(ops.arange(settings.size) == 0, 0.0, NEVER)
    start = none._replace(scores=ops.broadcast_to(first, (batch, settings.size)))
    rows = ops.cast(ops.nonzero(max_lengths > 0)[0], "int32")
    search = _Search(ops.zeros((), "int32"), rows, start, none, source_state, target_state)
    (search,) = ops.while_loop(unfinished, lambda search: (extend(search),), (search,))
    return Hypotheses(*(x[:, : settings.best] for x in search.ended))


def extensions(logits, search, settings):
    """The 2 K likeliest extensions of a sentence's K hypotheses by one token.

    Returns:
        `(candidates, parents, tokens)`: `Hypotheses` `(A, 2 K, ...)` scored by log-probability, which of the K each
        extends, and by which token, int32 `(A, 2 K)`.
    """
    size = settings.size
    scores = ops.log_softmax(ops.cast(logits, "float32"))
    _, _, length = ops.shape(search.growing.ids)
    vocabulary = ops.shape(scores)[-1]
    allowed = ban_early_end(ban_never_chosen(scores), search.step, settings.min_length)
    history = ops.reshape(search.growing.ids, (-1, length))
    allowed = ban_repeated_ngrams(allowed, history, search.step, settings.no_repeat_ngram)
    totals = ops.reshape(search.growing.scores, (-1, 1)) + allowed
    totals, which = largest_of_many(ops.reshape(totals, (-1, size * vocabulary)), 2 * size)
    parents, tokens = which // vocabulary, which % vocabulary
    token_scores = ops.take_along_axis(ops.reshape(scores, (-1, size * vocabulary)), which, axis=1)
    candidates = Hypotheses(
        put(pick(search.growing.ids, parents), search.step, tokens),
        put(pick(search.growing.log_probabilities, parents), search.step, token_scores),
        totals,
    )
    return candidates, parents, tokens


def coverage_bonus(coverage, search, settings):
    """What a coverage penalty adds to each hypothesis' score, never positive: float32 `(A, K)`."""
    rows = ops.shape(search.rows)[0]
    attention = ops.reshape(coverage(search.source_state, search.target_state), (rows, settings.size, -1))
    return settings.coverage_penalty * ops.sum(ops.log(ops.clip(attention, 1e-9, 1.0)), axis=-1)


def finish_hypotheses(search, candidates, parents, ends, bonus, settings):
    """The best K ended hypotheses `(A, K, ...)`: those before this step, and those of the first K candidates that end.

    Args:
        search: what was searched, after the step.
        candidates: `Hypotheses` `(A, 2 K, ...)`, scored by log-probability.
        parents: int32 `(A, 2 K)`, which hypothesis each candidate extends.
        ends: bool `(A, 2 K)`, which candidates end.
        bonus: float32 `(A, K)`, added to the score of what extends each hypothesis; or None.
        settings: `BeamSettings`.
    """
    scores = candidates.scores / settings.length_divisor(search.step)
    if bonus is not None:
        scores = scores + ops.take_along_axis(bonus, parents, axis=1)
    among_first = ops.arange(2 * settings.size) < settings.size
    scores = ops.where(ops.logical_and(ends, among_first), scores, NEVER)
    before = Hypotheses(*take_rows(search.ended, search.rows))
    return concatenate(before, candidates._replace(scores=scores)).best(settings.size)[0]


def drop_finished(search, ended, growing, parents, max_lengths, settings):
    """The next `_Search`, with what ended written down and only those sentences that are not finished.

    Args:
        search: what was searched, after the step.
        ended: `Hypotheses` `(A, K, ...)` that ended so far.
        growing: `Hypotheses` `(A, K, ...)` that go on.
        parents: int32 `(A, K)`, which hypothesis each of `growing` extends.
        max_lengths: int32 `(B,)`.
        settings: `BeamSettings`.
    """
    longest = ops.take(max_lengths, search.rows)
    at_longest = search.step >= longest
    divisor = settings.length_divisor(ops.expand_dims(longest, 1))
    ended = fill_up(ended, growing._replace(scores=growing.scores / divisor), at_longest)
    # No token adds probability and none takes coverage away, so this is the most that what goes on can reach.
    reachable = (growing.scores[:, :1] / divisor)[:, 0]
    all_there = ops.greater(ended.scores[:, -1], NEVER)
    out_of_reach = ended.scores[:, settings.best - 1] >= reachable
    finished = ops.logical_or(at_longest, ops.logical_or(all_there, out_of_reach))
    rows = ops.expand_dims(search.rows, 1)
    written = (ops.scatter_update(*pair) for pair in zip(search.ended, (rows,) * 3, ended, strict=True))
    kept = ops.cast(ops.nonzero(ops.logical_not(finished))[0], "int32")
    came_from = ops.reshape(ops.take(parents, kept, axis=0) + settings.size * ops.expand_dims(kept, 1), (-1,))
    return _Search(
        search.step,
        ops.take(search.rows, kept),
        Hypotheses(*take_rows(growing, kept)),
        Hypotheses(*written),
        ops.cond(ops.any(finished), lambda: take_rows(search.source_state, kept), lambda: search.source_state),
        take_rows(search.target_state, came_from),
    )

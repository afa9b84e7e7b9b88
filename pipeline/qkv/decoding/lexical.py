"""Beam search whose hypotheses contain required phrases and no banned ones (Hokamp and Liu 2017; Post and Vilar 2018).

The text of a hypothesis is read by automata, so that a phrase counts whatever tokens spell it. EOS is banned until all
phrases are met. The beam is divided among hypotheses by the number of tokens that they still need (dynamic beam
allocation, Post and Vilar 2018, section 3), and the next tokens of phrases are always among the candidates. Where the
tokens that are left are only just enough, nothing else is allowed.

Letters: A sentences still searched, B batch, K beam size, N tokens that phrases propose, P phrases, R hypotheses, T
tokens of a phrase, V vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.tokenizer import EOS, PAD
from .ban import Ban
from .banks import MOST_BANKS, order_by_banks
from .constraint import Constraint
from .constraints import MINUS_INFINITY, ban_special_tokens
from .control_flow import branch
from .hypotheses import top_k_of_many
from .requirements import Requirements, is_in, next_of_phrases, opens_word, read_tokens, start_met

FAR = 1 << 20  # more tokens than any target has


class LexicalState(NamedTuple):
    """The states of the automata; `()` where there is none.

    - banned: int32 `(R,)`.
    - met: `Met` of R hypotheses.
    """

    banned: Any
    met: Any


class Need(NamedTuple):
    """How many tokens hypotheses need at most until all their phrases are met.

    - all: int32 `(R,)`, after a token that breaks off what has been begun.
    - left: int32 `(R,)`, after a token that begins a new word, which leaves whole what is whole so far.
    - tokens: int32 `(R, N)`, the next tokens of unmet phrases, PAD for none.
    - then: int32 `(R, N)`, the tokens needed after each of these.
    """

    all: Any
    left: Any
    tokens: Any
    then: Any


class LexicalConstraint(Constraint):
    """Keeps to phrases.

    Args:
        ban: the banned phrases, if any.
        given: the required ones, if any.
        max_lengths: int32 `(B,)`, the maximum number of tokens of each target, EOS included. It must be enough: see
            `tokens_needed`.
        size: K.
        force_eos: whether the last of these tokens is EOS.
    """

    def __init__(self, ban: Ban | None, given: Requirements | None, max_lengths, size: int, force_eos: bool) -> None:
        self.ban, self.given, self.max_lengths = ban, given, max_lengths
        self.size, self.force_eos = size, force_eos
        # A token between two phrases keeps them from becoming a banned one.
        self.gap = int(ban is not None)

    def start(self):
        hypotheses = dynamic_shape(self.max_lengths)[0] * self.size
        return LexicalState(
            self.ban.start(hypotheses) if self.ban else (), start_met(self.given, self.size) if self.given else ()
        )

    def advance(self, state, tokens, rows):
        banned, met = state
        if self.given:
            begins = self._is_free(state)
            met = read_tokens(self.given, met, tokens, self._of_hypotheses(self.given.tokens, rows), begins)
        return LexicalState(self.ban.advance(banned, tokens) if self.ban else (), met)

    def allow(self, allowed, scores, state, step, rows):
        remaining = ops.repeat(ops.take(self.max_lengths, rows) - step - 1, self.size)
        following = self.ban.following(state.banned) if self.ban else None
        need = self._need(state, rows) if self.given else None

        def keep(allowed):
            kept = self._lead(allowed, scores, need, following, remaining - 1) if need else allowed
            return self.ban.allow(kept, following, remaining <= int(self.force_eos)) if self.ban else kept

        kept = keep(allowed)
        # Where settings leave nothing that phrases allow, phrases win.
        is_left = ops.any(kept > MINUS_INFINITY, axis=1, keepdims=True)
        return branch(
            ops.all(is_left), lambda: kept, lambda: ops.where(is_left, kept, keep(ban_special_tokens(scores)))
        )

    def best_extensions(self, totals, state, rows, count):
        if not self.given:
            return super().best_extensions(totals, state, rows, count)
        sentences, size, vocabulary = dynamic_shape(totals)
        need, totals = self._need(state, rows), ops.reshape(totals, (-1, vocabulary))
        likeliest, tokens = top_k_of_many(totals, min(count, vocabulary))
        opens = ops.take(opens_word(self.given.symbols), tokens)
        then = ops.where(opens, ops.expand_dims(need.left, 1), ops.expand_dims(need.all, 1))
        numbers = ops.expand_dims(ops.arange(sentences * size, dtype="int32") % size * vocabulary, 1)
        # Proposed tokens first: of two equal extensions the first counts.
        proposed = ops.take_along_axis(totals, need.tokens, axis=1), numbers + need.tokens, need.then
        others = likeliest, numbers + ops.cast(tokens, "int32"), then
        totals, indices, then = (
            ops.reshape(ops.concatenate(pair, 1), (sentences, -1)) for pair in zip(proposed, others, strict=True)
        )
        longest = ops.sum(self._costs(ops.take(self.given.lengths, rows, axis=0)), axis=1)
        return order_by_banks(totals, indices, then, longest, count, min(size, MOST_BANKS))

    def open_scores(self, scores, ends, size):
        if not self.given:
            return super().open_scores(scores, ends, size)
        stays = ops.logical_not(ends)
        is_first = ops.cumsum(ops.cast(stays, "int32"), axis=1) <= size
        return ops.where(ops.logical_and(stays, is_first), scores, MINUS_INFINITY)

    def _need(self, state, rows) -> Need:
        given, met = self.given, state.met
        assert given is not None
        costs = self._costs(self._of_hypotheses(given.lengths, rows))
        pending = ops.take(given.pending, met.states)
        if self.ban:
            pending = ops.where(self.ban.may_end(state.banned), pending, 0)
        is_unmet = ops.logical_and(costs > 0, ops.logical_not(is_in(given.bits, met.met)))
        is_left = ops.logical_and(is_unmet, ops.logical_not(is_in(given.bits, pending)))
        every, left = (ops.sum(ops.where(which, costs, 0), axis=1) for which in (is_unmet, is_left))
        phrases = self._of_hypotheses(given.tokens, rows)
        goes_on = ops.logical_and(is_unmet, met.progress > 0)
        going = ops.where(goes_on, next_of_phrases(phrases, met.progress), PAD)
        first = ops.where(is_left, phrases[:, :, 0], PAD)
        after_going = ops.expand_dims(every, 1) - met.progress - self.gap - 1
        after_first = left - ops.where(self._is_free(state), self.gap + 1, 0)
        tokens = ops.concatenate([going, first], axis=1)
        then = ops.concatenate(
            [after_going, ops.broadcast_to(ops.expand_dims(after_first, 1), dynamic_shape(first))], 1
        )
        return Need(every, left, tokens, ops.where(ops.equal(tokens, PAD), FAR, then))

    def _lead(self, allowed, scores, need: Need, following, remaining):
        """Returns the scores of the next tokens, `(R, V)`, with minus infinity for all after which the tokens that
        remain would not be enough, and for EOS before all phrases are met. What phrases need next is allowed even where
        a setting forbids it.

        Args:
            allowed, scores: see `allow`.
            need: of the hypotheses.
            following: see `Ban.following`; None without a ban.
            remaining: int32 `(R,)`, how many tokens come after the next one, without EOS.
        """

        def column(x):
            return ops.expand_dims(x, 1)

        assert self.given is not None
        opens = ops.expand_dims(opens_word(self.given.symbols), 0)
        is_enough = ops.logical_or(need.all <= remaining, ops.equal(need.all, 0))
        is_enough = ops.logical_or(column(is_enough), ops.logical_and(opens, column(need.left <= remaining)))
        kept = ops.where(is_enough, allowed, MINUS_INFINITY)
        if self.ban:
            then_left, then_all = (column(after <= remaining + 1) for after in (need.left, need.all))
            enough_then = ops.where(ops.expand_dims(self.ban.opens, 0), then_left, then_all)
            kept = ops.where(ops.logical_and(self.ban.is_free(following), enough_then), allowed, kept)
        is_eos = ops.equal(ops.arange(dynamic_shape(scores)[1], dtype="int32"), EOS)
        at_end = ops.where(column(ops.equal(need.left, 0)), allowed, MINUS_INFINITY)
        kept = ops.where(ops.expand_dims(is_eos, 0), at_end, kept)
        return _put(kept, allowed, scores, need.tokens, need.then <= column(remaining))

    def _costs(self, lengths):
        return ops.where(lengths > 0, lengths + self.gap, 0)

    def _is_free(self, state):
        return self.ban.is_free(state.banned) if self.ban else ops.ones_like(state.met.states, "bool")

    def _of_hypotheses(self, x, rows):
        return ops.repeat(ops.take(x, rows, axis=0), self.size, axis=0)


def _put(kept, allowed, scores, tokens, is_enough):
    """Puts the scores of proposed tokens `(R, N)` where they are enough."""
    same = ops.equal(ops.expand_dims(tokens, 2), ops.expand_dims(tokens, 1))
    is_enough = ops.any(ops.logical_and(same, ops.expand_dims(is_enough, 1)), axis=2)
    old, wanted, raw = (ops.take_along_axis(x, tokens, axis=1) for x in (kept, allowed, scores))
    wanted = ops.where(ops.equal(wanted, MINUS_INFINITY), raw, wanted)
    hypotheses = ops.expand_dims(ops.arange(dynamic_shape(tokens)[0], dtype="int32"), 1)
    hypotheses = ops.broadcast_to(hypotheses, dynamic_shape(tokens))
    places = ops.reshape(ops.stack([hypotheses, tokens], axis=2), (-1, 2))
    return ops.scatter_update(kept, places, ops.reshape(ops.where(is_enough, wanted, old), (-1,)))

"""Phrases that translations must or must not contain (Hokamp and Liu 2017; Post and Vilar 2018).

The text of a hypothesis is read by automata, so that a phrase counts whatever tokens spell it. A `Ban` bans phrases in
every search. A beam search meets required ones: EOS is banned until all phrases are met. The beam is divided among
hypotheses by the number of tokens that they still need (dynamic beam allocation, Post and Vilar 2018, section 3), and
the next tokens of phrases are always among the candidates. Where the tokens that are left are only just enough, nothing
else is allowed.

Letters: A sentences still searched, B batch, K beam size, L symbols of the longest token, N tokens that phrases
propose, P phrases, R hypotheses, S states, T tokens of the longest phrase and one more, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..text.phrases.automaton import PhraseAutomaton
from ..text.phrases.banned import BanTable
from ..text.phrases.required import RequiredPhrase
from ..text.phrases.token_text import DIVIDING, END, NOTHING, SYMBOLS
from ..text.tokens.special_tokens import EOS, PAD
from .constraints import Constraint, ban_special_tokens
from .search import MINUS_INFINITY, branch, top_k_of_many

FAR = 1 << 20  # more tokens than any target has
MOST_BANKS = 8


class Ban:
    """Applies a `BanTable`."""

    def __init__(self, table: BanTable) -> None:
        self._following = ops.convert_to_tensor(table.following)
        self._closed = table.closed
        self.opens = ops.convert_to_tensor(table.opens)

    def start(self, hypotheses):
        """Returns the states before the first token: int32 `(R,)`."""
        return ops.zeros((hypotheses,), "int32")

    def advance(self, states, tokens):
        """Returns the states after tokens, int32 `(R,)`."""
        vocabulary = dynamic_shape(self._following)[1]
        following = ops.take(ops.reshape(self._following, (-1,)), states * vocabulary + tokens)
        return ops.maximum(ops.cast(following, "int32"), 0)

    def following(self, states):
        """Returns the states after each token `(R, V)`; below 0 where it is banned."""
        return ops.take(self._following, states, axis=0)

    def allow(self, scores, following, must_end):
        """Returns the scores of the next tokens `(R, V)` with minus infinity for banned ones.

        Args:
            scores: float32 `(R, V)`.
            following: of the hypotheses, see `following`.
            must_end: bool `(R,)`, the hypotheses in which no banned phrase may be whole after the next token, even if
                its last word could go on.
        """
        is_closed = ops.logical_and(ops.expand_dims(must_end, 1), following >= self._closed)
        return ops.where(ops.logical_or(following < 0, is_closed), MINUS_INFINITY, scores)

    def is_free(self, states):
        """Returns in which states, of any shape, no banned phrase has begun."""
        return ops.logical_and(states >= 0, states <= 1)

    def may_end(self, states):
        """Returns in which states the text may end."""
        return states < self._closed


class Requirements(NamedTuple):
    """The required phrases of a batch, as arrays or tensors.

    - symbols: int16 `(V, L)`, see `TokenText`.
    - following, completed: int32 `(S, SYMBOLS)`, the automata of all sentences, one after another; bit p of `completed`
      stands for phrase p of the sentence.
    - pending: int32 `(S,)`.
    - starts: int32 `(B,)`, each sentence's first state.
    - bits: int32 `(P,)`.
    - tokens: int32 `(B, P, T)`, those that write each phrase, then PAD.
    - lengths: int32 `(B, P)`, how many they are.
    """

    symbols: Any
    following: Any
    completed: Any
    pending: Any
    starts: Any
    bits: Any
    tokens: Any
    lengths: Any


class Met(NamedTuple):
    """The required phrases that hypotheses have met so far.

    - states: int32 `(R,)`, of the automaton.
    - met: int32 `(R,)`, the bits of the phrases that the text holds as whole words, whatever follows.
    - progress: int32 `(R, P)`, how many tokens of each phrase the hypothesis ends in.
    """

    states: Any
    met: Any
    progress: Any


def make_requirements(rows: Sequence[Sequence[RequiredPhrase]], symbols) -> Requirements:
    """Makes the arrays of the phrases of each sentence; for the symbols see `Requirements`."""
    most = max(map(len, rows))
    longest = max((len(phrase.ids) for row in rows for phrase in row), default=0)
    tokens = np.full((len(rows), most, longest + 1), PAD, np.int32)
    lengths = np.zeros((len(rows), most), np.int32)
    automata = []
    for sentence, row in enumerate(rows):
        for place, phrase in enumerate(row):
            tokens[sentence, place, : len(phrase.ids)] = phrase.ids
            lengths[sentence, place] = len(phrase.ids)
        marks = [1 << place for place in range(len(row))]
        automata.append(PhraseAutomaton([phrase.symbols for phrase in row], marks, unsure_divides=False))
    states = np.array([len(automaton.pending) for automaton in automata], np.int32)
    starts = np.cumsum(states, dtype=np.int32) - states
    return Requirements(
        symbols,
        np.concatenate([automaton.following + start for automaton, start in zip(automata, starts, strict=True)]),
        np.concatenate([automaton.completed for automaton in automata]),
        np.concatenate([automaton.pending for automaton in automata]),
        starts,
        2 ** np.arange(most, dtype=np.int32),
        tokens,
        lengths,
    )


def read_tokens(given: Requirements, met: Met, tokens, phrases, begins) -> Met:
    """Returns the state after a token.

    Args:
        given: of the batch.
        met: before it.
        tokens: int32 `(R,)`.
        phrases: int32 `(R, P, T)`, the tokens of each hypothesis' phrases.
        begins: bool `(R,)`, whether a phrase that begins with this token counts as begun.
    """
    symbols = ops.cast(ops.take(given.symbols, tokens, axis=0), "int32")
    following, completed = (ops.reshape(table, (-1,)) for table in (given.following, given.completed))

    def read_symbol(place, reading):
        states, found = reading
        index = states * SYMBOLS + ops.take(symbols, place, axis=1)
        return ops.take(following, index), ops.bitwise_or(found, ops.take(completed, index))

    longest = ops.max(ops.sum(ops.cast(ops.not_equal(symbols, NOTHING), "int32"), axis=1))
    states, found = ops.fori_loop(0, longest, read_symbol, (met.states, met.met))
    read = ops.reshape(tokens, (-1, 1))
    is_text = ops.not_equal(read, PAD)
    goes_on = is_text & (met.progress > 0) & ops.equal(next_of_phrases(phrases, met.progress), read)
    starts = is_text & ops.expand_dims(begins, 1) & ops.equal(phrases[:, :, 0], read)
    return Met(states, found, ops.where(goes_on, met.progress + 1, ops.cast(starts, "int32")))


def next_of_phrases(phrases, progress):
    """Returns the token after those that have been met, PAD after the last: int32 `(R, P)`."""
    return ops.take_along_axis(phrases, ops.expand_dims(progress, 2), axis=2)[:, :, 0]


def opens_word(symbols):
    """Returns which tokens begin with a character that divides words, EOS among them: bool `(V,)`."""
    first = symbols[:, 0]
    return ops.logical_and(first >= DIVIDING, first <= END)


def is_in(bits, mask):
    """Returns which of the bits, int32 `(P,)`, a mask `(R,)` has: bool `(R, P)`."""
    return ops.bitwise_and(ops.expand_dims(mask, 1), ops.expand_dims(bits, 0)) > 0


class LexicalState(NamedTuple):
    """The states of the automata; `()` where there is none.

    - banned: int32 `(R,)`.
    - met: `Met` of R hypotheses.
    """

    banned: Any
    met: Any


class Need(NamedTuple):
    """The number of tokens that hypotheses need at most until all their phrases are met.

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
        met: Any = ()
        if self.given:
            states = ops.repeat(self.given.starts, self.size)
            progress = ops.zeros((hypotheses, dynamic_shape(self.given.bits)[0]), "int32")
            met = Met(states, ops.zeros_like(states), progress)
        return LexicalState(self.ban.start(hypotheses) if self.ban else (), met)

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
        left = ops.any(kept > MINUS_INFINITY, axis=1, keepdims=True)
        return branch(ops.all(left), lambda: kept, lambda: ops.where(left, kept, keep(ban_special_tokens(scores))))

    def best_extensions(self, totals, state, rows, count):
        if not self.given:
            return super().best_extensions(totals, state, rows, count)
        sentences, size, vocabulary = dynamic_shape(totals)
        need = self._need(state, rows)
        totals = ops.reshape(totals, (-1, vocabulary))
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

    def _need(self, state, rows) -> Need:
        given = self.given
        assert given is not None
        met = state.met
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
        after_first = ops.expand_dims(left - ops.where(self._is_free(state), self.gap + 1, 0), 1)
        tokens = ops.concatenate([going, first], axis=1)
        then = ops.concatenate([after_going, ops.broadcast_to(after_first, dynamic_shape(first))], 1)
        return Need(every, left, tokens, ops.where(ops.equal(tokens, PAD), FAR, then))

    def _lead(self, allowed, scores, need: Need, following, remaining):
        """Returns the scores of the next tokens, `(R, V)`, with minus infinity for all after which the tokens that
        remain would not be enough, and for EOS before all phrases are met. What phrases need next is allowed even where
        a setting forbids it. `remaining`, int32 `(R,)`, is how many tokens come after the next one, without EOS."""

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


def order_by_banks(totals, indices, then, longest, count, banks):
    """Orders extensions of a sentence's hypotheses: first the likeliest of each bank, then the second of each, and so
    on; within a round those that need least come first.

    Args:
        totals: float32 `(A, C)`, the log-probabilities of extensions.
        indices: int32 `(A, C)`, which they are; of equal ones the first counts.
        then: int32 `(A, C)`, how many tokens they still need.
        longest: int32 `(A,)`, the largest number of tokens that one can need; 0 puts all of them in one bank.
        count: how many are returned.
        banks: the number of banks.

    Returns:
        `(totals, indices)`, each `(A, count)`. Ties go to the lower index.
    """
    order = ops.argsort(indices, axis=1)  # stable
    totals, indices, then = (ops.take_along_axis(x, order, axis=1) for x in (totals, indices, then))
    is_repeated = ops.concatenate(
        [ops.zeros_like(indices[:, :1], "bool"), ops.equal(indices[:, 1:], indices[:, :-1])], axis=1
    )
    totals, order = ops.top_k(ops.where(is_repeated, MINUS_INFINITY, totals), dynamic_shape(totals)[1])
    longest = ops.expand_dims(ops.maximum(longest, 1), 1)
    bank = -(-ops.take_along_axis(then, order, axis=1) * (banks - 1) // longest)
    bank = ops.clip(bank, 0, banks - 1)
    is_of = ops.one_hot(bank, banks, dtype="int32")
    place = ops.sum(is_of * ops.cumsum(is_of, axis=1), axis=2) - 1
    positions = ops.expand_dims(ops.arange(dynamic_shape(totals)[1], dtype="int32"), 0)
    last = banks * dynamic_shape(totals)[1]
    rank = ops.where(ops.equal(totals, MINUS_INFINITY), last + positions, banks * place + bank)
    _, chosen = ops.top_k(-rank, count)
    indices = ops.take_along_axis(indices, order, axis=1)
    return ops.take_along_axis(totals, chosen, axis=1), ops.take_along_axis(indices, chosen, axis=1)

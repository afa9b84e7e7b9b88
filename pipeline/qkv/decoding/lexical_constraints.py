"""Banned and required phrases in a search (Hokamp and Liu 2017; Post and Vilar 2018).

Phrases are matched with the text of a hypothesis by automata, so a phrase counts however it is divided into tokens.

Banned phrases work in every search. Required phrases need a beam search:

- EOS is banned until a hypothesis contains all its phrases.
- The next tokens of the phrases are always among the candidates.
- The beam is divided into banks. The hypotheses of a bank need about equally many tokens for their missing phrases
  (dynamic beam allocation, Post and Vilar 2018, section 3).
- If the remaining tokens are just enough for the missing phrases, only the tokens of phrases are allowed.

Letters: A sentences still searched, B batch, C extensions of the hypotheses of a sentence, K beam size, L symbols of
the longest token, N tokens that phrases propose, P phrases, R hypotheses, S states, T tokens of the longest phrase plus
one, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..model.interface import rows_for_each
from ..text.phrases.automaton import PhraseAutomaton
from ..text.phrases.banned import BanTable
from ..text.phrases.required import RequiredPhrase
from ..text.phrases.token_text import DIVIDING, END, NOTHING, SYMBOLS
from ..text.tokens.special_tokens import EOS, PAD
from .constraints import Constraint, ban_special_tokens
from .search import MINUS_INFINITY, branch, gather_rows, top_k_of_many

UNREACHABLE = 1 << 20
"""The number of needed tokens that stands for an extension that cannot be used; larger than any target's length."""

MOST_BANKS = 8
"""The largest number of banks of a beam."""


class Ban:
    """Bans phrases: the automaton of a `text.phrases.banned.BanTable` as tensors.

    The automaton reads the tokens of each hypothesis. The caller keeps the state of each hypothesis.

    Args:
        table: the automaton of the banned phrases.

    Attributes:
        opens: True for tokens that begin with a character that separates words, bool `(V,)`.
    """

    def __init__(self, table: BanTable) -> None:
        self._following = ops.convert_to_tensor(table.following)
        self._closed = table.closed
        self.opens = ops.convert_to_tensor(table.opens)

    def start(self, hypotheses):
        """Returns the states before the first token, int32 `(R,)`; `hypotheses` is their number R."""
        return ops.zeros((hypotheses,), "int32")

    def advance(self, states, tokens):
        """Returns the states after one more token, int32 `(R,)`.

        Args:
            states: the states before the token, int32 `(R,)`.
            tokens: the token of each hypothesis, int32 `(R,)`.
        """
        vocabulary = dynamic_shape(self._following)[1]
        following = ops.take(ops.reshape(self._following, (-1,)), states * vocabulary + tokens)
        return ops.maximum(ops.cast(following, "int32"), 0)

    def following(self, states):
        """Returns the state after each possible next token, int `(R, V)`; negative if the token is banned.

        Args:
            states: the present states, int32 `(R,)`.
        """
        return ops.take(self._following, states, axis=0)

    def allow(self, scores, following, must_end):
        """Returns the scores with minus infinity for banned tokens.

        Args:
            scores: the scores of the next tokens, float32 `(R, V)`.
            following: the result of `following`.
            must_end: True if the text ends after the next token, bool `(R,)`. Then a token is also banned if the text
                would end in a banned phrase. Otherwise such a token is allowed if a later token can continue the last
                word of the phrase, and so turn it into another word.

        Returns:
            float32 `(R, V)`.
        """
        is_closed = ops.logical_and(ops.expand_dims(must_end, 1), following >= self._closed)
        return ops.where(ops.logical_or(following < 0, is_closed), MINUS_INFINITY, scores)

    def is_free(self, states):
        """Returns True for states in which no banned phrase has begun, bool of the shape of `states`."""
        return ops.logical_and(states >= 0, states <= 1)

    def may_end(self, states):
        """Returns True for states in which the text may end, bool of the shape of `states`."""
        return states < self._closed


class Requirements(NamedTuple):
    """The required phrases of a batch, as arrays or tensors.

    A `text.phrases.automaton.PhraseAutomaton` for each sentence finds its phrases in a text. The tables of all automata
    are joined along the axis of the states. Bit p of an integer stands for phrase p of a sentence.

    - symbols: the symbols of the text of each token, int16 `(V, L)`; see `text.phrases.token_text.TokenText`.
    - following: the next state, for each state and next symbol, int32 `(S, SYMBOLS)`.
    - completed: the bits of the phrases that end before a symbol, for each state and next symbol, int32 `(S, SYMBOLS)`.
    - pending: the bits of the phrases that are complete if a word ends in a state, int32 `(S,)`.
    - starts: the first state of each sentence, int32 `(B,)`.
    - bits: the integer `2^p` of each phrase p, int32 `(P,)`.
    - tokens: the tokens of each phrase, padded by PAD, int32 `(B, P, T)`.
    - lengths: the number of tokens of each phrase, int32 `(B, P)`; 0 if a sentence has fewer phrases.
    """

    symbols: Any
    following: Any
    completed: Any
    pending: Any
    starts: Any
    bits: Any
    tokens: Any
    lengths: Any


class PhraseProgress(NamedTuple):
    """The required phrases that hypotheses contain so far, whole or in part.

    - states: the state of the automaton, int32 `(R,)`.
    - contained: the bits of the phrases that the text contains for certain, whatever its next token is, int32 `(R,)`.
    - progress: the number of first tokens of each phrase with which the hypothesis ends, int32 `(R, P)`.
    """

    states: Any
    contained: Any
    progress: Any


def make_requirements(rows: Sequence[Sequence[RequiredPhrase]], symbols) -> Requirements:
    """Returns the required phrases of a batch as arrays.

    Args:
        rows: the phrases of each sentence, at least one sentence.
        symbols: the symbols of each token, see `Requirements`.
    """
    most = max(map(len, rows))
    longest = max((len(phrase.ids) for row in rows for phrase in row), default=0)
    tokens = np.full((len(rows), most, longest + 1), PAD, np.int32)
    lengths = np.zeros((len(rows), most), np.int32)
    automata = []
    for sentence, row in enumerate(rows):
        for number, phrase in enumerate(row):
            tokens[sentence, number, : len(phrase.ids)] = phrase.ids
            lengths[sentence, number] = len(phrase.ids)
        bits = [1 << number for number in range(len(row))]
        automata.append(PhraseAutomaton([phrase.symbols for phrase in row], bits, unsure_divides=False))
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


def read_tokens(requirements: Requirements, progress: PhraseProgress, tokens, phrases, begins) -> PhraseProgress:
    """Returns the progress of hypotheses after their next tokens.

    Args:
        requirements: the required phrases of the batch.
        progress: the progress before the tokens.
        tokens: the next token of each hypothesis, int32 `(R,)`.
        phrases: the tokens of the phrases of each hypothesis, int32 `(R, P, T)`.
        begins: True if a phrase may begin with this token, bool `(R,)`.
    """
    symbols = ops.cast(ops.take(requirements.symbols, tokens, axis=0), "int32")
    following = ops.reshape(requirements.following, (-1,))
    completed = ops.reshape(requirements.completed, (-1,))

    def read_symbol(number, states_and_contained):
        states, contained = states_and_contained
        index = states * SYMBOLS + ops.take(symbols, number, axis=1)
        return ops.take(following, index), ops.bitwise_or(contained, ops.take(completed, index))

    longest = ops.max(ops.sum(ops.cast(ops.not_equal(symbols, NOTHING), "int32"), axis=1))
    states, contained = ops.fori_loop(0, longest, read_symbol, (progress.states, progress.contained))
    tokens = ops.reshape(tokens, (-1, 1))
    is_text = ops.not_equal(tokens, PAD)
    next_tokens = next_of_phrases(phrases, progress.progress)
    goes_on = is_text & (progress.progress > 0) & ops.equal(next_tokens, tokens)
    starts = is_text & ops.expand_dims(begins, 1) & ops.equal(phrases[:, :, 0], tokens)
    return PhraseProgress(states, contained, ops.where(goes_on, progress.progress + 1, ops.cast(starts, "int32")))


def next_of_phrases(phrases, progress):
    """Returns the next token of each phrase, int32 `(R, P)`; PAD if the phrase is complete.

    Args:
        phrases: the tokens of the phrases of each hypothesis, padded by PAD, int32 `(R, P, T)`.
        progress: the number of first tokens of each phrase with which the hypothesis ends, int32 `(R, P)`.
    """
    return ops.take_along_axis(phrases, ops.expand_dims(progress, 2), axis=2)[:, :, 0]


def opens_word(symbols):
    """Returns True for tokens that begin with a character that separates words, and for EOS, bool `(V,)`.

    Args:
        symbols: the symbols of each token, int16 `(V, L)`.
    """
    first = symbols[:, 0]
    return ops.logical_and(first >= DIVIDING, first <= END)


def is_in(bits, mask):
    """Returns bool `(R, P)`: True if a mask, int32 `(R,)`, has a bit, int32 `(P,)`."""
    return ops.bitwise_and(ops.expand_dims(mask, 1), ops.expand_dims(bits, 0)) > 0


class LexicalState(NamedTuple):
    """The state of a `LexicalConstraint` between two steps.

    - banned: the states of `Ban`, int32 `(R,)`; `()` if no phrases are banned.
    - progress: the `PhraseProgress` of R hypotheses; `()` if no phrases are required.
    """

    banned: Any
    progress: Any


class TokensNeeded(NamedTuple):
    """The number of tokens after the next token that are enough for hypotheses to contain all their phrases.

    The number depends on the next token.

    - after_any: the number after any token, even if it interrupts a phrase that has begun, int32 `(R,)`.
    - after_word: the number after a token that begins a new word, int32 `(R,)`. Such a token completes a phrase at the
      end of the text.
    - tokens: the next tokens of the missing phrases, int32 `(R, N)`; PAD for a phrase that has no next token.
    - after_token: the number after each of `tokens`, int32 `(R, N)`; `UNREACHABLE` for PAD.
    """

    after_any: Any
    after_word: Any
    tokens: Any
    after_token: Any


class LexicalConstraint(Constraint):
    """Enforces banned and required phrases in a beam search.

    Args:
        ban: the banned phrases; None if there are none.
        requirements: the required phrases; None if there are none.
        max_lengths: the maximum number of tokens of each target, EOS included, int32 `(B,)`. It must be enough for the
            phrases, see `text.phrases.required.tokens_needed`.
        size: the beam size K.
        force_eos: if True, the last token of a target of maximum length is always EOS, and not a token of text.
    """

    def __init__(
        self, ban: Ban | None, requirements: Requirements | None, max_lengths, size: int, force_eos: bool
    ) -> None:
        self.ban = ban
        self.requirements = requirements
        self.max_lengths = max_lengths
        self.size = size
        self.force_eos = force_eos
        # If phrases are banned, one token between two required phrases keeps these from forming a banned one.
        self.gap = int(ban is not None)

    def start(self):
        batch = dynamic_shape(self.max_lengths)[0]
        progress: Any = ()
        if self.requirements:
            states = ops.convert_to_tensor(self.requirements.starts)
            lengths = ops.zeros((batch, dynamic_shape(self.requirements.bits)[0]), "int32")
            progress = PhraseProgress(states, ops.zeros_like(states), lengths)
        return LexicalState(self.ban.start(batch) if self.ban else (), progress)

    def advance(self, state, tokens, rows):
        banned, progress = state
        if self.requirements:
            phrases = rows_for_each(ops.take(self.requirements.tokens, rows, axis=0), dynamic_shape(tokens)[0])
            progress = read_tokens(self.requirements, progress, tokens, phrases, self._is_free(state))
        return LexicalState(self.ban.advance(banned, tokens) if self.ban else (), progress)

    def allow(self, allowed, scores, state, step, rows):
        allowed = ban_special_tokens(allowed)
        remaining = rows_for_each(ops.take(self.max_lengths, rows) - step - 1, dynamic_shape(allowed)[0])
        following = self.ban.following(state.banned) if self.ban else None
        needed = self._tokens_needed(state, rows) if self.requirements else None

        def enforce(allowed):
            if needed:
                allowed = self._reserve_tokens(allowed, scores, needed, following, remaining - 1)
            return self.ban.allow(allowed, following, remaining <= int(self.force_eos)) if self.ban else allowed

        enforced = enforce(allowed)
        # If the settings ban all tokens that the phrases allow, the phrases take precedence.
        has_token = ops.any(enforced > MINUS_INFINITY, axis=1, keepdims=True)
        return branch(
            ops.all(has_token),
            lambda: enforced,
            lambda: ops.where(has_token, enforced, enforce(ban_special_tokens(scores))),
        )

    def best_extensions(self, allowed, offsets, state, rows, count):
        if not self.requirements:
            return super().best_extensions(allowed, offsets, state, rows, count)
        sentences, width, vocabulary = dynamic_shape(allowed)
        needed = self._tokens_needed(state, rows)
        totals = ops.reshape(allowed, (-1, vocabulary)) + ops.reshape(offsets, (-1, 1))
        likeliest, tokens = top_k_of_many(ops.expand_dims(totals, 1), count)
        opens = ops.take(opens_word(self.requirements.symbols), tokens)
        after_likeliest = ops.where(opens, ops.expand_dims(needed.after_word, 1), ops.expand_dims(needed.after_any, 1))
        first_index = ops.expand_dims(ops.arange(sentences * width, dtype="int32") % width * vocabulary, 1)

        def join(proposed, unproposed):  # proposed tokens first: of two equal extensions the first one counts
            return ops.reshape(ops.concatenate([proposed, unproposed], 1), (sentences, -1))

        indices = join(first_index + needed.tokens, first_index + ops.cast(tokens, "int32"))
        tokens_after = join(needed.after_token, after_likeliest)
        totals = join(ops.take_along_axis(totals, needed.tokens, axis=1), likeliest)
        longest = ops.sum(self._costs(ops.take(self.requirements.lengths, rows, axis=0)), axis=1)
        return order_by_banks(totals, indices, tokens_after, longest, count, min(self.size, MOST_BANKS))

    def _tokens_needed(self, state, rows) -> TokensNeeded:
        """Returns the number of tokens that hypotheses need after the next token. `requirements` must not be None."""
        requirements = self.requirements
        assert requirements is not None
        progress = state.progress
        hypotheses = dynamic_shape(progress.states)[0]
        lengths, phrases = gather_rows((requirements.lengths, requirements.tokens), rows)
        lengths, phrases = rows_for_each((lengths, phrases), hypotheses)
        costs = self._costs(lengths)
        pending = ops.take(requirements.pending, progress.states)
        if self.ban:
            pending = ops.where(self.ban.may_end(state.banned), pending, 0)
        is_unmet = ops.logical_and(costs > 0, ops.logical_not(is_in(requirements.bits, progress.contained)))
        is_missing = ops.logical_and(is_unmet, ops.logical_not(is_in(requirements.bits, pending)))
        after_any = ops.sum(ops.where(is_unmet, costs, 0), axis=1)
        after_word = ops.sum(ops.where(is_missing, costs, 0), axis=1)
        has_begun = ops.logical_and(is_unmet, progress.progress > 0)
        continuing = ops.where(has_begun, next_of_phrases(phrases, progress.progress), PAD)
        beginning = ops.where(is_missing, phrases[:, :, 0], PAD)
        after_continuing = ops.expand_dims(after_any, 1) - progress.progress - self.gap - 1
        after_beginning = ops.expand_dims(after_word - ops.where(self._is_free(state), self.gap + 1, 0), 1)
        after_beginning = ops.broadcast_to(after_beginning, dynamic_shape(beginning))
        tokens = ops.concatenate([continuing, beginning], axis=1)
        after_token = ops.concatenate([after_continuing, after_beginning], axis=1)
        after_token = ops.where(ops.equal(tokens, PAD), UNREACHABLE, after_token)
        return TokensNeeded(after_any, after_word, tokens, after_token)

    def _reserve_tokens(self, allowed, scores, needed: TokensNeeded, following, remaining):
        """Bans next tokens after which too few tokens would remain for the phrases. Bans EOS if a phrase is missing.

        The next tokens of phrases are allowed if enough tokens remain after them, even if a setting bans them.

        Args:
            allowed: the scores of the next tokens after the bans of the settings, float32 `(R, V)`.
            scores: the scores before any ban, float32 `(R, V)`.
            needed: the tokens that the hypotheses need.
            following: the result of `Ban.following`; None if no phrases are banned.
            remaining: the number of tokens that may come after the next one, without EOS, int32 `(R,)`.

        Returns:
            The scores with minus infinity for banned tokens, float32 `(R, V)`.
        """

        def column(x):
            return ops.expand_dims(x, 1)

        assert self.requirements is not None
        opens = ops.expand_dims(opens_word(self.requirements.symbols), 0)
        is_enough = ops.logical_or(needed.after_any <= remaining, ops.equal(needed.after_any, 0))
        is_enough = ops.logical_or(column(is_enough), ops.logical_and(opens, column(needed.after_word <= remaining)))
        enforced = ops.where(is_enough, allowed, MINUS_INFINITY)
        if self.ban:
            # A token after which no banned phrase has begun needs no further token as a gap.
            enough_after_word = column(needed.after_word <= remaining + 1)
            enough_after_any = column(needed.after_any <= remaining + 1)
            is_enough = ops.where(ops.expand_dims(self.ban.opens, 0), enough_after_word, enough_after_any)
            enforced = ops.where(ops.logical_and(self.ban.is_free(following), is_enough), allowed, enforced)
        is_eos = ops.equal(ops.arange(dynamic_shape(scores)[1], dtype="int32"), EOS)
        at_end = ops.where(column(ops.equal(needed.after_word, 0)), allowed, MINUS_INFINITY)
        enforced = ops.where(ops.expand_dims(is_eos, 0), at_end, enforced)
        return _allow_proposed(enforced, allowed, scores, needed.tokens, needed.after_token <= column(remaining))

    def _costs(self, lengths):
        """Returns the maximum number of tokens for each phrase: its length and the gap; 0 if the length is 0."""
        return ops.where(lengths > 0, lengths + self.gap, 0)

    def _is_free(self, state):
        """Returns True for hypotheses in which no banned phrase has begun, bool `(R,)`."""
        return self.ban.is_free(state.banned) if self.ban else ops.ones_like(state.progress.states, "bool")


def _allow_proposed(enforced, allowed, scores, tokens, is_enough):
    """Allows the next tokens of the missing phrases, the proposed tokens, if enough tokens remain after them.

    Args:
        enforced: the scores after the bans of the settings and the phrases, float32 `(R, V)`.
        allowed: the scores after the bans of the settings, float32 `(R, V)`.
        scores: the scores before any ban, float32 `(R, V)`.
        tokens: the proposed tokens, int32 `(R, N)`.
        is_enough: True if enough tokens remain after a proposed token, bool `(R, N)`.

    Returns:
        float32 `(R, V)`. A proposed token with `is_enough` has its score in `allowed`; if this is minus infinity, its
        score in `scores`. Other tokens have their score in `enforced`.
    """
    is_same = ops.equal(ops.expand_dims(tokens, 2), ops.expand_dims(tokens, 1))
    is_enough = ops.any(ops.logical_and(is_same, ops.expand_dims(is_enough, 1)), axis=2)
    before = ops.take_along_axis(enforced, tokens, axis=1)
    proposed = ops.take_along_axis(allowed, tokens, axis=1)
    unrestricted = ops.take_along_axis(scores, tokens, axis=1)
    proposed = ops.where(ops.equal(proposed, MINUS_INFINITY), unrestricted, proposed)
    hypotheses = ops.expand_dims(ops.arange(dynamic_shape(tokens)[0], dtype="int32"), 1)
    hypotheses = ops.broadcast_to(hypotheses, dynamic_shape(tokens))
    indices = ops.reshape(ops.stack([hypotheses, tokens], axis=2), (-1, 2))
    return ops.scatter_update(enforced, indices, ops.reshape(ops.where(is_enough, proposed, before), (-1,)))


def order_by_banks(totals, indices, needed, longest, count, banks):
    """Returns the first `count` extensions of each sentence's hypotheses, taken from the banks in turn.

    A bank holds the extensions that need about equally many tokens. The first turn takes the likeliest extension of
    each bank, the second turn the second likeliest, and so on. Within a turn, the bank that needs the fewest tokens
    comes first.

    Args:
        totals: the log-probabilities of the extensions, float32 `(A, C)`.
        indices: the indices of the extensions, int32 `(A, C)`. If an index occurs twice, its first extension counts.
        needed: the number of tokens that each extension still needs, int32 `(A, C)`.
        longest: the largest number of tokens that an extension can need, int32 `(A,)`. If it is 0, all extensions are
            in one bank.
        count: the number of extensions to return.
        banks: the number of banks.

    Returns:
        `(totals, indices)`, each `(A, count)`. Ties go to the lower index.
    """
    order = ops.argsort(indices, axis=1)  # stable
    totals = ops.take_along_axis(totals, order, axis=1)
    indices = ops.take_along_axis(indices, order, axis=1)
    needed = ops.take_along_axis(needed, order, axis=1)
    is_repeated = ops.concatenate(
        [ops.zeros_like(indices[:, :1], "bool"), ops.equal(indices[:, 1:], indices[:, :-1])], axis=1
    )
    totals, order = ops.top_k(ops.where(is_repeated, MINUS_INFINITY, totals), dynamic_shape(totals)[1])
    longest = ops.expand_dims(ops.maximum(longest, 1), 1)
    bank = -(-ops.take_along_axis(needed, order, axis=1) * (banks - 1) // longest)
    bank = ops.clip(bank, 0, banks - 1)
    is_in_bank = ops.one_hot(bank, banks, dtype="int32")
    turn = ops.sum(is_in_bank * ops.cumsum(is_in_bank, axis=1), axis=2) - 1
    positions = ops.expand_dims(ops.arange(dynamic_shape(totals)[1], dtype="int32"), 0)
    last = banks * dynamic_shape(totals)[1]
    rank = ops.where(ops.equal(totals, MINUS_INFINITY), last + positions, banks * turn + bank)
    _, chosen = ops.top_k(-rank, count)
    indices = ops.take_along_axis(indices, order, axis=1)
    return ops.take_along_axis(totals, chosen, axis=1), ops.take_along_axis(indices, chosen, axis=1)

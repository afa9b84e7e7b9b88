"""The required phrases of a batch of sentences, and how far hypotheses have met them.

Letters: A sentences still searched, B batch, K beam size, L symbols of the longest token, P phrases, R hypotheses, S
states, T tokens of the longest phrase and one more, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.phrase_automaton import PhraseAutomaton
from ..text.required import RequiredPhrase
from ..text.token_text import DIVIDING, END, NOTHING, SYMBOLS
from ..text.tokenizer import PAD


class Requirements(NamedTuple):
    """What a search needs to know of them, as arrays or tensors.

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
    """How far hypotheses are.

    - states: int32 `(R,)`, of the automaton.
    - met: int32 `(R,)`, the bits of the phrases that the text holds as whole words, whatever follows.
    - progress: int32 `(R, P)`, how many tokens of each phrase the hypothesis ends in.
    """

    states: Any
    met: Any
    progress: Any


def make_requirements(rows: Sequence[Sequence[RequiredPhrase]], symbols) -> Requirements:
    """Makes the arrays.

    Args:
        rows: the phrases of each sentence.
        symbols: see `Requirements`.
    """
    most = max(map(len, rows))
    longest = max((len(phrase.ids) for row in rows for phrase in row), default=0)
    tokens = np.full((len(rows), most, longest + 1), PAD, np.int32)
    lengths = np.zeros((len(rows), most), np.int32)
    automata, starts, states = [], [], 0
    for sentence, row in enumerate(rows):
        for place, phrase in enumerate(row):
            tokens[sentence, place, : len(phrase.ids)] = phrase.ids
            lengths[sentence, place] = len(phrase.ids)
        marks = [1 << place for place in range(len(row))]
        automata.append(PhraseAutomaton([phrase.symbols for phrase in row], marks, unsure_divides=False))
        starts.append(states)
        states += len(automata[-1].pending)
    numbered = [automaton.following + start for automaton, start in zip(automata, starts, strict=True)]
    return Requirements(
        symbols,
        np.concatenate(numbered),
        np.concatenate([automaton.completed for automaton in automata]),
        np.concatenate([automaton.pending for automaton in automata]),
        np.array(starts, np.int32),
        2 ** np.arange(most, dtype=np.int32),
        tokens,
        lengths,
    )


def start_met(given: Requirements, size) -> Met:
    """Returns the state before the first token, for K hypotheses of each sentence."""
    states = ops.repeat(given.starts, size)
    progress = ops.zeros((dynamic_shape(states)[0], dynamic_shape(given.bits)[0]), "int32")
    return Met(states, ops.zeros_like(states), progress)


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

"""A deterministic automaton that reads a text symbol by symbol and says which phrases it holds as whole words.

Aho and Corasick 1975, with the difference that a match begins and ends only where a word can. Letters: S states.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from .token_text import DIVIDING, END, NOTHING, SPACE, SYMBOLS, UNSURE, Symbols

APART, JOINED = 0, 1
"""The states in which no phrase has begun: after a character that divides or at the start, and after another one."""


class PhraseAutomaton:
    """The automaton.

    Args:
        phrases: the symbols of each phrase.
        marks: the bits that report each.
        unsure_divides: whether a character of which only the first byte is known counts as dividing. True finds too
            many phrases beside such characters, False too few.

    Attributes:
        following: int32 `(S, SYMBOLS)`, the next state.
        completed: int32 `(S, SYMBOLS)`, the marks of the phrases that are whole once this symbol is read.
        pending: int32 `(S,)`, the marks of the phrases that are whole if the text ends or a word does.
        fallback: int32 `(S,)`, the state of the longest part of what was read with which another phrase begins.
        children: for each state the symbols that continue a phrase, with the states after them.
    """

    def __init__(self, phrases: Sequence[Symbols], marks: Sequence[int], unsure_divides: bool) -> None:
        self.children: list[dict[int, int]] = [{}, {}]
        whole: dict[int, int] = {}
        for phrase, mark in zip(phrases, marks, strict=True):
            state = APART
            for symbol in phrase:
                if symbol not in self.children[state]:
                    self.children[state][symbol] = len(self.children)
                    self.children.append({})
                state = self.children[state][symbol]
            whole[state] = whole.get(state, 0) | mark
        # A phrase can begin after a letter only with a character that divides.
        self.children[JOINED] = {symbol: to for symbol, to in self.children[APART].items() if symbol >= DIVIDING}
        self._fill(whole, unsure_divides)

    def _fill(self, whole: dict[int, int], unsure_divides: bool) -> None:
        states = len(self.children)
        self.following = np.zeros((states, SYMBOLS), np.int32)
        self.pending, self.fallback = np.zeros(states, np.int32), np.zeros(states, np.int32)
        is_joined = np.zeros(states, bool)
        is_joined[JOINED] = True
        for root in (APART, JOINED):
            row = self.following[root]
            row[:] = APART
            row[:DIVIDING] = JOINED
            row[0x80:0xC0] = row[NOTHING] = root
            self._add_children(root)
        waiting = deque((APART, symbol, state) for symbol, state in self.children[APART].items())
        while waiting:
            parent, symbol, state = waiting.popleft()
            is_joined[state] = is_joined[parent] if 0x80 <= symbol < 0xC0 else symbol < DIVIDING  # a further byte
            from_parent = self.following[self.fallback[parent], symbol]
            self.fallback[state] = int(is_joined[state]) if parent == APART else from_parent
            self.following[state] = self.following[self.fallback[state]]
            self.following[state, NOTHING] = state
            if symbol == SPACE:
                self.following[state, SPACE] = state  # several spaces are as one
            self._add_children(state)
            self.pending[state] = whole.get(state, 0) | self.pending[self.fallback[state]]
            waiting.extend((state, following, child) for following, child in self.children[state].items())
        joining, dividing = self.following[:, 0xC0:DIVIDING], self.following[:, DIVIDING + 0xC0 : END]
        otherwise = np.where(dividing > JOINED, dividing, APART if unsure_divides else JOINED)
        self.following[:, UNSURE + 0xC0 :] = np.where(joining > JOINED, joining, otherwise)
        ends_word = np.zeros((states, SYMBOLS), bool)
        ends_word[:, DIVIDING : END + 1] = True
        ends_word[:, :0x80] = ends_word[:, 0xC0:DIVIDING] = ~is_joined[:, None]
        ends_word[:, UNSURE + 0xC0 :] = unsure_divides | ~is_joined[:, None]
        self.completed = np.where(ends_word, self.pending[:, None], 0).astype(np.int32)

    def _add_children(self, state: int) -> None:
        for symbol, child in self.children[state].items():
            self.following[state, symbol] = child

    def read(self, symbols: Sequence[int], state: int = APART) -> tuple[int, int]:
        """Reads symbols: returns the state after them, and the marks of the phrases completed on the way."""
        found = 0
        for symbol in symbols:
            found |= int(self.completed[state, symbol])
            state = int(self.following[state, symbol])
        return state, found

"""A deterministic automaton that reads a text symbol by symbol and finds phrases in it (Aho and Corasick 1975).

Unlike in the paper, a phrase is found only if it begins and ends at word boundaries. Letters: S states.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from .token_text import DIVIDING, END, NOTHING, SPACE, SYMBOLS, UNSURE, Symbols

APART, JOINED = 0, 1
"""The states in which no phrase has begun. In `APART` a word may begin: the text has just begun, or its last character
separates words. In `JOINED` the last character belongs to a word that may go on."""


class PhraseAutomaton:
    """An automaton that finds phrases in a text.

    Args:
        phrases: the symbols of each phrase.
        phrase_bits: for each phrase an int with one bit, such as 1, 2 or 4, that represents it in the tables. Phrases
            may have the same bit.
        unsure_divides: whether a character with an `UNSURE` first byte counts as separating words. Beside such
            characters, too many phrases are found if True, and too few if False.

    Attributes:
        following: for each state the state after each next symbol, int32 `(S, SYMBOLS)`.
        completed: for each state and next symbol the bits of the phrases that end before that symbol, int32
            `(S, SYMBOLS)`.
        pending: for each state the bits of the phrases that end there if a word or the text ends there, int32 `(S,)`.
        fallback: the failure link of each state, int32 `(S,)`: the state of the next shorter suffix of the text that a
            phrase begins with.
        children: for each state a dict from the symbols that continue a phrase to the states after them.
    """

    def __init__(self, phrases: Sequence[Symbols], phrase_bits: Sequence[int], unsure_divides: bool) -> None:
        self.children: list[dict[int, int]] = [{}, {}]
        ending_phrases: dict[int, int] = {}
        for phrase, bits in zip(phrases, phrase_bits, strict=True):
            state = APART
            for symbol in phrase:
                if symbol not in self.children[state]:
                    self.children[state][symbol] = len(self.children)
                    self.children.append({})
                state = self.children[state][symbol]
            ending_phrases[state] = ending_phrases.get(state, 0) | bits
        # Within a word, a phrase can begin only with a character that separates words.
        self.children[JOINED] = {symbol: child for symbol, child in self.children[APART].items() if symbol >= DIVIDING}
        self._fill_tables(ending_phrases, unsure_divides)

    def _fill_tables(self, ending_phrases: dict[int, int], unsure_divides: bool) -> None:
        """Computes the tables from `children`.

        Args:
            ending_phrases: by state the bits of the phrases whose last symbol leads to it.
            unsure_divides: see the class.
        """
        states = len(self.children)
        self.following = np.zeros((states, SYMBOLS), np.int32)
        self.pending = np.zeros(states, np.int32)
        self.fallback = np.zeros(states, np.int32)
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
            is_continuation_byte = 0x80 <= symbol < 0xC0
            is_joined[state] = is_joined[parent] if is_continuation_byte else symbol < DIVIDING
            from_parent = self.following[self.fallback[parent], symbol]
            self.fallback[state] = int(is_joined[state]) if parent == APART else from_parent
            self.following[state] = self.following[self.fallback[state]]
            self.following[state, NOTHING] = state
            if symbol == SPACE:
                self.following[state, SPACE] = state  # several spaces count as one
            self._add_children(state)
            self.pending[state] = ending_phrases.get(state, 0) | self.pending[self.fallback[state]]
            waiting.extend((state, following, child) for following, child in self.children[state].items())
        # A first byte that is `UNSURE` continues a phrase if it does as part of either kind of character.
        if_joining = self.following[:, 0xC0:DIVIDING]
        if_dividing = self.following[:, DIVIDING + 0xC0 : END]
        otherwise = np.where(if_dividing > JOINED, if_dividing, APART if unsure_divides else JOINED)
        self.following[:, UNSURE + 0xC0 :] = np.where(if_joining > JOINED, if_joining, otherwise)
        ends_word = np.zeros((states, SYMBOLS), bool)
        ends_word[:, DIVIDING : END + 1] = True
        ends_word[:, :0x80] = ends_word[:, 0xC0:DIVIDING] = ~is_joined[:, None]
        ends_word[:, UNSURE + 0xC0 :] = unsure_divides | ~is_joined[:, None]
        self.completed = np.where(ends_word, self.pending[:, None], 0).astype(np.int32)

    def _add_children(self, state: int) -> None:
        """Writes the children of a state into its row of `following`."""
        for symbol, child in self.children[state].items():
            self.following[state, symbol] = child

    def read(self, symbols: Sequence[int], state: int = APART) -> tuple[int, int]:
        """Reads symbols.

        Args:
            symbols: the symbols of a part of a text.
            state: the state before the symbols. By default the text begins with them.

        Returns:
            The state after the symbols, and the bits of the phrases that were completed. A phrase at the end is not
            among them; see `pending`.
        """
        completed = 0
        for symbol in symbols:
            completed |= int(self.completed[state, symbol])
            state = int(self.following[state, symbol])
        return state, completed

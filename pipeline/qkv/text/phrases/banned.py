"""Banned phrases: words and phrases that no translation may contain, however they are divided into tokens.

Letters: S states, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..lines.text_file import read_lines
from ..lines.typed_line import LineReader
from ..tokens.special_tokens import BOS, EOS, PAD, UNK
from .automaton import APART, JOINED, PhraseAutomaton
from .token_text import DIVIDING, NOTHING, SPACE, Symbols, TokenText, contains

LARGEST_TABLE = 1 << 27
"""The largest number of entries in a table. An entry takes two bytes if there are at most 32,767 states, else four."""

NONE = -1


@dataclass(frozen=True)
class BanTable:
    """The tokens that may come next in each state of an automaton over tokens.

    Args:
        following: the state after each token, int `(S, V)`. In states 0 and 1 no phrase has begun. `NONE` if the token
            is forbidden: it would complete a banned phrase, or lead to a state in which all tokens are forbidden.
        closed: the first state in which neither the text nor a word may end; the same holds for all later states.
        opens: the tokens that begin with a character that separates words, bool `(V,)`.
    """

    following: npt.NDArray[np.signedinteger]
    closed: int
    opens: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BannedPhrases:
    """Banned phrases.

    Args:
        texts: the phrases as the user wrote them.
        symbols: the symbols of each phrase.
        tokens: the tokens of the target language.
        table: the table that a search applies.
    """

    texts: tuple[str, ...]
    symbols: tuple[Symbols, ...]
    tokens: TokenText
    table: BanTable

    def find(self, symbols: Sequence[int]) -> str | None:
        """Returns the first banned phrase that a text with these symbols contains; None if there is none."""
        matches = (text for text, phrase in zip(self.texts, self.symbols, strict=True) if contains(symbols, phrase))
        return next(matches, None)

    def find_in_beginning(self, ids: Sequence[int]) -> str | None:
        """Returns the first banned phrase in the text of a prefix; None if there is none.

        A phrase at its end does not count if the last word may go on.
        """
        return self.find([*self.tokens.of_tokens(ids), ord("a")])


def read_banned(path: Path, tokens: TokenText, leads_out: bool = False) -> BannedPhrases:
    """Reads banned phrases from a file with one phrase in each line, written as in the training text.

    Args:
        path: the file.
        tokens: the tokens of the target language.
        leads_out: see `make_ban_table`.

    Raises:
        InputError: a line is empty or is not text, or the table of the phrases would have more than `LARGEST_TABLE`
            entries.
    """
    lines = LineReader(tokens.tokenizer)((f"{path}:{number}", line) for number, line in enumerate(read_lines(path), 1))
    texts = [" ".join(tokens.tokenizer.as_read(line).split()) for line in lines]
    if "" in texts:
        raise InputError(f"{path}:{texts.index('') + 1}: an empty line; expected a word or phrase on each line")
    texts = list(dict.fromkeys(texts))
    symbols = tuple(map(tokens.of_text, texts))
    size = sum(map(len, symbols))
    most = LARGEST_TABLE // len(tokens.symbols) - 2  # every automaton has two more states
    if size > most:
        raise InputError(
            f"{path}: {size:,} bytes; expected at most {most:,} for a vocabulary of {len(tokens.symbols):,} tokens, "
            "since the table of allowed tokens grows with both; divide the list, or leave out rare phrases"
        )
    return BannedPhrases(tuple(texts), symbols, tokens, make_ban_table(symbols, tokens, leads_out))


def make_ban_table(phrases: Sequence[Symbols], tokens: TokenText, leads_out: bool = False) -> BanTable:
    """Makes the table of banned phrases.

    Args:
        phrases: the symbols of each phrase.
        tokens: the tokens of the target language.
        leads_out: whether to also forbid tokens that begin a banned phrase if no token after them can break it off. It
            is set if there are required phrases, so that a required phrase can always begin. It only matters for tiny
            vocabularies.
    """
    automaton = PhraseAutomaton(phrases, [1] * len(phrases), unsure_divides=True)
    following = _lift_to_tokens(automaton, tokens)
    opens = tokens.symbols[:, 0] >= DIVIDING
    opens[[PAD, UNK, BOS, EOS]] = False
    # In a state in which the text must not end, at least one token must be allowed.
    closed = automaton.pending > 0
    is_out = (following == APART) | (following == JOINED) if leads_out else np.append(~closed, False)[following]
    is_out[:, [PAD, UNK, BOS, EOS]] = False
    is_way = is_out.any(axis=1) | ~closed
    if leads_out:
        is_way = np.where(closed, is_way, is_out[:, opens].any(axis=1))
        is_way[[APART, JOINED]] = True
    order = np.argsort(closed, kind="stable")
    numbers = np.argsort(order)
    numbers[~is_way] = NONE
    following = np.append(numbers, NONE)[following[order]]  # NONE is the last one's index
    dtype = np.int16 if len(order) <= np.iinfo(np.int16).max else np.int32
    return BanTable(following.astype(dtype), len(order) - int(closed.sum()), opens)


def _lift_to_tokens(automaton: PhraseAutomaton, tokens: TokenText) -> npt.NDArray[np.int32]:
    """Returns the state after each token, int32 `(S, V)`; `NONE` if the token completes a phrase.

    The row of a state is that of its fallback, except for the tokens that continue a phrase.
    """
    states = len(automaton.pending)
    first = tokens.symbols[:, 0].astype(np.int64)
    by_first = {int(symbol): np.flatnonzero(first == symbol) for symbol in np.unique(first)}
    silent = by_first[NOTHING]
    following = np.empty((states, len(first)), np.int32)
    waiting = [APART, JOINED]
    while waiting:
        state = waiting.pop(0)
        if state in (APART, JOINED):
            following[state] = _read_tokens(automaton, state, tokens.symbols)
        else:
            following[state] = following[automaton.fallback[state]]
            following[state, automaton.completed[state, first] > 0] = NONE
            following[state, silent] = state
            continuing = set(automaton.children[state])
            if automaton.following[state, SPACE] == state:  # several spaces count as one
                continuing.add(SPACE)
            for symbol in continuing:
                rows = by_first.get(symbol)
                if rows is not None:
                    following[state, rows] = _read_tokens(automaton, state, tokens.symbols[rows])
        if state != JOINED:
            waiting += automaton.children[state].values()
    return following


def _read_tokens(automaton: PhraseAutomaton, start: int, symbols: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """Returns the state after each token, read from state `start`; `NONE` if the token completes a phrase.

    Args:
        automaton: the automaton.
        start: the state before the token.
        symbols: the symbols of each token, `(tokens, longest)`.
    """
    states = np.full(len(symbols), start, np.int32)
    is_banned = np.zeros(len(symbols), bool)
    for column in symbols.T:
        is_banned |= automaton.completed[states, column] > 0
        states = automaton.following[states, column]
    return np.where(is_banned, NONE, states)

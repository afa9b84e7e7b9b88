"""Banned phrases: words and phrases that no translation may contain, in any segmentation into tokens.

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
"""The maximum number of entries in a table. An entry takes two bytes if there are at most 32,767 states, else four."""

NO_STATE = -1
"""The state after a forbidden token: there is none."""


@dataclass(frozen=True)
class BanTable:
    """The table of allowed tokens: an automaton that reads a translation token by token.

    Args:
        following: for each state the state after each next token, int `(S, V)`. `NO_STATE` if the token is forbidden:
            it would complete a banned phrase, or lead to a state in which all tokens are forbidden. A text begins in
            state 0. In states 0 and 1 no phrase has begun.
        closed: the number of the first closed state, in which neither the text nor a word may end. All states from this
            one on are closed.
        opens: True for tokens that begin with a character that separates words, bool `(V,)`.
    """

    following: npt.NDArray[np.signedinteger]
    closed: int
    opens: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BannedPhrases:
    """Banned phrases.

    Args:
        texts: the phrases as the user wrote them, with single spaces.
        symbols: the symbols of each phrase.
        tokens: the text of the target language's tokens.
        table: the table of allowed tokens, for a search.
    """

    texts: tuple[str, ...]
    symbols: tuple[Symbols, ...]
    tokens: TokenText
    table: BanTable

    def find(self, symbols: Sequence[int]) -> str | None:
        """Returns the first banned phrase that a text with these symbols contains; None if it contains none."""
        matches = (text for text, phrase in zip(self.texts, self.symbols, strict=True) if contains(symbols, phrase))
        return next(matches, None)

    def find_in_beginning(self, ids: Sequence[int]) -> str | None:
        """Returns the first banned phrase that a prefix with these ids contains; None if it contains none.

        A phrase at the end of the prefix does not count if its last word could go on.
        """
        return self.find([*self.tokens.of_tokens(ids), ord("a")])


def read_banned(path: Path, tokens: TokenText, leads_out: bool = False) -> BannedPhrases:
    """Reads banned phrases from a file. It has one phrase in each line, written as in the training text.

    Args:
        path: the file.
        tokens: the text of the target language's tokens.
        leads_out: see `make_ban_table`.

    Raises:
        InputError: the file cannot be read as text, a line is empty, or the table would have more than `LARGEST_TABLE`
            entries.
    """
    lines = LineReader(tokens.tokenizer)((f"{path}:{number}", line) for number, line in enumerate(read_lines(path), 1))
    texts = [" ".join(tokens.tokenizer.as_read(line).split()) for line in lines]
    if "" in texts:
        raise InputError(f"{path}:{texts.index('') + 1}: an empty line; expected a word or phrase on each line")
    texts = list(dict.fromkeys(texts))
    symbols = tuple(map(tokens.of_text, texts))
    size = sum(map(len, symbols))
    most = LARGEST_TABLE // len(tokens.symbols) - 2  # an automaton has two states more than symbols at most
    if size > most:
        raise InputError(
            f"{path}: {size:,} bytes; expected at most {most:,} for a vocabulary of {len(tokens.symbols):,} tokens, "
            "since the table of allowed tokens grows with both; divide the list, or leave out rare phrases"
        )
    return BannedPhrases(tuple(texts), symbols, tokens, make_ban_table(symbols, tokens, leads_out))


def make_ban_table(phrases: Sequence[Symbols], tokens: TokenText, leads_out: bool = False) -> BanTable:
    """Returns the table of allowed tokens for banned phrases.

    Args:
        phrases: the symbols of each phrase.
        tokens: the text of the target language's tokens.
        leads_out: whether to forbid more tokens, so that after each allowed token some next token leads out of all
            banned phrases. Set it if there are required phrases, which can then always begin. It only matters for tiny
            vocabularies.
    """
    automaton = PhraseAutomaton(phrases, [1] * len(phrases), unsure_divides=True)
    following = _lift_to_tokens(automaton, tokens)
    opens = tokens.symbols[:, 0] >= DIVIDING
    opens[[PAD, UNK, BOS, EOS]] = False
    # A state in which the text must not end is allowed only if a token leads out of it.
    closed = automaton.pending > 0
    is_out = (following == APART) | (following == JOINED) if leads_out else np.append(~closed, False)[following]
    is_out[:, [PAD, UNK, BOS, EOS]] = False
    is_allowed = is_out.any(axis=1) | ~closed
    if leads_out:
        is_allowed = np.where(closed, is_allowed, is_out[:, opens].any(axis=1))
        is_allowed[[APART, JOINED]] = True
    order = np.argsort(closed, kind="stable")  # closed states come last
    numbers = np.argsort(order)
    numbers[~is_allowed] = NO_STATE
    # The index NO_STATE, -1, reads the last entry, which is NO_STATE.
    following = np.append(numbers, NO_STATE)[following[order]]
    dtype = np.int16 if len(order) <= np.iinfo(np.int16).max else np.int32
    return BanTable(following.astype(dtype), len(order) - int(closed.sum()), opens)


def _lift_to_tokens(automaton: PhraseAutomaton, tokens: TokenText) -> npt.NDArray[np.int32]:
    """Returns for each state the state after each next token, int32 `(S, V)`; `NO_STATE` if the token completes a
    phrase.

    The row of a state equals the row of its fallback, except for tokens that continue a phrase. Only these tokens are
    read.
    """
    states = len(automaton.pending)
    first_symbols = tokens.symbols[:, 0].astype(np.int64)
    tokens_by_symbol = {int(symbol): np.flatnonzero(first_symbols == symbol) for symbol in np.unique(first_symbols)}
    tokens_without_text = tokens_by_symbol[NOTHING]
    following = np.empty((states, len(first_symbols)), np.int32)
    waiting = [APART, JOINED]
    while waiting:
        state = waiting.pop(0)
        if state in (APART, JOINED):
            following[state] = _read_tokens(automaton, state, tokens.symbols)
        else:
            following[state] = following[automaton.fallback[state]]
            following[state, automaton.completed[state, first_symbols] > 0] = NO_STATE
            following[state, tokens_without_text] = state
            continuing = set(automaton.children[state])
            if automaton.following[state, SPACE] == state:  # several spaces count as one
                continuing.add(SPACE)
            for symbol in continuing:
                rows = tokens_by_symbol.get(symbol)
                if rows is not None:
                    following[state, rows] = _read_tokens(automaton, state, tokens.symbols[rows])
        if state != JOINED:
            waiting += automaton.children[state].values()
    return following


def _read_tokens(automaton: PhraseAutomaton, start: int, symbols: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """Returns for some tokens the state after each of them, int32 `(tokens,)`; `NO_STATE` if it completes a phrase.

    Args:
        automaton: the automaton.
        start: the state before each token.
        symbols: the symbols of each token, int16 `(tokens, longest)`.
    """
    states = np.full(len(symbols), start, np.int32)
    is_banned = np.zeros(len(symbols), bool)
    for column in symbols.T:
        is_banned |= automaton.completed[states, column] > 0
        states = automaton.following[states, column]
    return np.where(is_banned, NO_STATE, states)

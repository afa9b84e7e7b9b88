"""Words and phrases that no translation may contain, whatever the tokens that spell them.

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

LARGEST_TABLE = 1 << 27  # entries, of two bytes up to 32,767 states
NONE = -1


@dataclass(frozen=True)
class BanTable:
    """The tokens that may come next, by states of an automaton.

    Args:
        following: int `(S, V)`, the state after each token; `NONE` where the token would complete a banned phrase, or
            lead to where only such tokens may follow. States 0 and 1 are those in which no phrase has begun.
        closed: the first of the states, up to the last, in which the text must not end, nor a word.
        opens: bool `(V,)`, the tokens that begin with a character that divides words.
    """

    following: npt.NDArray[np.signedinteger]
    closed: int
    opens: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BannedPhrases:
    """Banned phrases: as they were given, as symbols, and as a table over the tokens of the target language."""

    texts: tuple[str, ...]
    symbols: tuple[Symbols, ...]
    tokens: TokenText
    table: BanTable

    def find(self, symbols: Sequence[int]) -> str | None:
        """Returns the first phrase that a text with these symbols contains."""
        found = (text for text, phrase in zip(self.texts, self.symbols, strict=True) if contains(symbols, phrase))
        return next(found, None)

    def find_in_beginning(self, ids: Sequence[int]) -> str | None:
        """Returns the first phrase in the text of these tokens, which begins a longer one."""
        return self.find([*self.tokens.of_tokens(ids), ord("a")])


def read_banned(path: Path, tokens: TokenText, leads_out: bool = False) -> BannedPhrases:
    """Reads a file of phrases, one a line, in the form of the training text; see `make_ban_table`.

    Raises:
        InputError: a line is empty or no text, or there are too many.
    """
    lines = LineReader(tokens.tokenizer)((f"{path}:{number}", line) for number, line in enumerate(read_lines(path), 1))
    texts = [" ".join(tokens.tokenizer.as_read(line).split()) for line in lines]
    if "" in texts:
        raise InputError(f"{path}:{texts.index('') + 1}: an empty line; expected a word or phrase on each line")
    texts = list(dict.fromkeys(texts))
    symbols = tuple(map(tokens.of_text, texts))
    size = sum(map(len, symbols))
    most = LARGEST_TABLE // len(tokens.symbols) - 2  # two states are always there
    if size > most:
        raise InputError(
            f"{path}: {size:,} bytes; expected at most {most:,} for a vocabulary of {len(tokens.symbols):,} tokens, "
            "since the table of what may come next grows with both; divide the list, or leave out what is rare"
        )
    return BannedPhrases(tuple(texts), symbols, tokens, make_ban_table(symbols, tokens, leads_out))


def make_ban_table(phrases: Sequence[Symbols], tokens: TokenText, leads_out: bool = False) -> BanTable:
    """Makes the table of phrases.

    Args:
        phrases: their symbols.
        tokens: the tokens of the target language.
        leads_out: whether to avoid what a banned phrase begins with where no word that comes next would end that, so
            that required phrases can always be begun. A vocabulary has to be tiny for this to matter.
    """
    automaton = PhraseAutomaton(phrases, [1] * len(phrases), unsure_divides=True)
    following = _lift_to_tokens(automaton, tokens)
    opens = tokens.symbols[:, 0] >= DIVIDING
    opens[[PAD, UNK, BOS, EOS]] = False
    # Where the text must not end, some token has to lead out of it.
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
    """Returns the state after each token, `(S, V)`; states differ from their fallbacks only where phrases go on."""
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
            goes_on = automaton.following[state, SPACE] == state  # after a space another one is nothing
            for symbol in {*automaton.children[state], *([SPACE] if goes_on else [])}:
                among = by_first.get(symbol)
                if among is not None:
                    following[state, among] = _read_tokens(automaton, state, tokens.symbols[among])
        if state != JOINED:
            waiting += automaton.children[state].values()
    return following


def _read_tokens(automaton: PhraseAutomaton, start: int, symbols: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    states = np.full(len(symbols), start, np.int32)
    is_banned = np.zeros(len(symbols), bool)
    for column in symbols.T:
        is_banned |= automaton.completed[states, column] > 0
        states = automaton.following[states, column]
    return np.where(is_banned, NONE, states)

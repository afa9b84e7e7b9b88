"""The text that each token adds, as symbols: bytes that also say where words begin and end."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..tokens.special_tokens import BOS, EOS, PAD
from ..tokens.tokenizer import Tokenizer
from ..tokens.words import joins

DIVIDING = 256  # added to the first byte of a character that makes no word with its neighbours
SPACE = DIVIDING + ord(" ")
END = 2 * DIVIDING  # the end of the text
NOTHING = END + 1  # no symbol: what follows the last one of a token
UNSURE = NOTHING + 1 - 0xC0
"""Added to the first byte of a character that a token holds without the others, so that nobody knows which it is."""
SYMBOLS = UNSURE + 256
_BYTE = re.compile("<0x([0-9A-F]{2})>")  # a token of a vocabulary with byte fallback
Symbols = tuple[int, ...]


class TokenText:
    """The text that each token adds.

    The tokens are spelt by decoding each of them between two others, so that only the tokenizer's interface counts. A
    character is the symbols of its bytes, the first one greater by `DIVIDING` if the character makes no word with its
    neighbours; so two characters have a boundary between them unless neither is dividing. White space is `SPACE`.

    Args:
        tokenizer: of a run, whose target language has the tokens.
        tokenized: whether words are known to be separated by spaces: then only white space divides. Otherwise
            characters that are no letters or digits divide as well, and so do characters of scripts without spaces.
    """

    def __init__(self, tokenizer: Tokenizer, tokenized: bool) -> None:
        self._of_run, self.tokenized = tokenizer, tokenized

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the target language."""
        return self._of_run.of_target

    @cached_property
    def symbols(self) -> npt.NDArray[np.int16]:
        """The symbols of each token, `(V, longest)`, then `NOTHING`; PAD and BOS have none, EOS has `END`."""
        spelt = enumerate(_spell_tokens(self.tokenizer))
        rows = [self._of_token(token, piece, text) for token, (piece, text) in spelt]
        symbols = np.full((len(rows), max(map(len, rows))), NOTHING, np.int16)
        for token, row in enumerate(rows):
            symbols[token, : len(row)] = row
        return symbols

    def of_text(self, text: str) -> Symbols:
        """Returns the symbols of a text, without white space at its ends; further inside a run of it is one."""
        return tuple(symbol for character in " ".join(text.split()) for symbol in self._of_character(character))

    def of_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Returns the symbols that tokens add one after another."""
        return [int(symbol) for token in tokens for symbol in self.symbols[token] if symbol != NOTHING]

    def _of_token(self, token: int, piece: str, text: str) -> list[int]:
        if token in (PAD, BOS):
            return []
        if token == EOS:
            return [END]
        if text != piece and (byte := _BYTE.fullmatch(piece)):
            value = int(byte[1], 16)
            return [value + UNSURE] if value >= 0xC0 else [value] if value >= 0x80 else self._of_character(chr(value))
        return [symbol for character in text for symbol in self._of_character(character)]

    def _of_character(self, character: str) -> list[int]:
        if character.isspace():
            return [SPACE]
        first, *others = character.encode()
        return [first + DIVIDING * (not self.tokenized and not joins(character)), *others]


def _spell_tokens(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Returns the piece of each token, and what it adds to a text in which other tokens stand before and after it."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    letters = [token for token, piece in enumerate(pieces) if token > EOS and piece.isalpha()]
    between = min(letters, key=lambda token: len(pieces[token]), default=EOS + 1)
    before, both, *texts = tokenizer.decode(
        [[between], [between] * 2, *([between, token, between] for token in range(len(pieces)))]
    )
    first, last = len(before), len(both) - len(before)
    return [(piece, text[first : len(text) - last]) for piece, text in zip(pieces, texts, strict=True)]


def contains(text: Sequence[int], phrase: Symbols) -> bool:
    """Returns whether the symbols of a text hold a phrase as whole words; the text begins and ends there."""
    size = len(phrase)
    places = (place for place in range(len(text) - size + 1) if tuple(text[place : place + size]) == phrase)
    return any(
        (place == 0 or _divide(_last_first(text[:place]), phrase[0]))
        and (place + size == len(text) or _divide(_last_first(phrase), text[place + size]))
        for place in places
    )


def _last_first(symbols: Sequence[int]) -> int:
    """Returns the first symbol of the last character."""
    return next(symbol for symbol in reversed(symbols) if not 0x80 <= symbol < 0xC0)


def _divide(before: int, after: int) -> bool:
    return before >= DIVIDING or after >= DIVIDING

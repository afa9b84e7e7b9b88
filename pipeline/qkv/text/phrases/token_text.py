"""The text that each token adds to a translation, as symbols: bytes that also mark the boundaries of words."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..tokens.special_tokens import BOS, EOS, PAD
from ..tokens.tokenizer import Tokenizer
from ..tokens.words import joins

DIVIDING = 256
"""Added to the first byte of a character that separates words, that is one that never belongs to a longer word."""

SPACE = DIVIDING + ord(" ")
"""The symbol of white space."""

END = 2 * DIVIDING
"""The symbol of the end of the text."""

NOTHING = END + 1
"""No symbol. It pads the symbols of a token."""

UNSURE = NOTHING + 1 - 0xC0
"""Added to the first byte of a character if a token has only that byte, so that the character is not known yet."""

SYMBOLS = UNSURE + 256
"""The number of symbols."""

_BYTE = re.compile("<0x([0-9A-F]{2})>")  # a token of a vocabulary with byte fallback
Symbols = tuple[int, ...]


class TokenText:
    """The text that each token adds, as symbols.

    The symbols of a character are its UTF-8 bytes. `DIVIDING` is added to the first byte if the character separates
    words. So there is a word boundary between two characters if at least one of them separates words. White space is
    `SPACE`. The text of a token is found by decoding the token between two other ones, so any tokenizer will do.

    Args:
        tokenizer: the tokenizer of a run.
        tokenized: whether the text has spaces between all words. If True, only white space separates words. If False,
            punctuation and other characters that are not letters or digits do so, too, and all characters of scripts
            without spaces.
    """

    def __init__(self, tokenizer: Tokenizer, tokenized: bool) -> None:
        self._of_run, self.tokenized = tokenizer, tokenized

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the target language."""
        return self._of_run.of_target

    @cached_property
    def symbols(self) -> npt.NDArray[np.int16]:
        """The symbols of each token, int16 `(V, longest)`, padded by `NOTHING`.

        PAD and BOS have no symbols, and EOS has `END`.
        """
        texts = enumerate(_spell_tokens(self.tokenizer))
        rows = [self._of_token(token, piece, text) for token, (piece, text) in texts]
        symbols = np.full((len(rows), max(map(len, rows))), NOTHING, np.int16)
        for token, row in enumerate(rows):
            symbols[token, : len(row)] = row
        return symbols

    def of_text(self, text: str) -> Symbols:
        """Returns the symbols of a text. White space at its ends is removed, and several spaces become one."""
        return tuple(symbol for character in " ".join(text.split()) for symbol in self._of_character(character))

    def of_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Returns the symbols of a sequence of tokens."""
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
        first_byte, *further_bytes = character.encode()
        divides = not self.tokenized and not joins(character)
        return [first_byte + DIVIDING * divides, *further_bytes]


def _spell_tokens(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Returns `(piece, text)` for each token; `text` is what the token adds between two other tokens."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    letters = [token for token, piece in enumerate(pieces) if token > EOS and piece.isalpha()]
    between = min(letters, key=lambda token: len(pieces[token]), default=EOS + 1)
    before, both, *texts = tokenizer.decode(
        [[between], [between] * 2, *([between, token, between] for token in range(len(pieces)))]
    )
    first, last = len(before), len(both) - len(before)
    return [(piece, text[first : len(text) - last]) for piece, text in zip(pieces, texts, strict=True)]


def contains(text: Sequence[int], phrase: Symbols) -> bool:
    """Returns whether a text contains a phrase as whole words.

    Args:
        text: the symbols of a whole text, which begins and ends with a word boundary.
        phrase: the symbols of the phrase.
    """
    size = len(phrase)
    for start in range(len(text) - size + 1):
        end = start + size
        if tuple(text[start:end]) != phrase:
            continue
        begins_word = start == 0 or _is_boundary(text[:start], phrase)
        ends_word = end == len(text) or _is_boundary(phrase, text[end:])
        if begins_word and ends_word:
            return True
    return False


def _is_boundary(before: Sequence[int], after: Sequence[int]) -> bool:
    """Returns whether there is a word boundary between two texts of at least one symbol."""
    last_character = next(symbol for symbol in reversed(before) if not 0x80 <= symbol < 0xC0)
    return last_character >= DIVIDING or after[0] >= DIVIDING

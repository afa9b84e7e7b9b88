"""The text that each token adds to a translation, as symbols: bytes that also show the boundaries of words."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..tokens.special_tokens import BOS, EOS, PAD
from ..tokens.tokenizer import Tokenizer
from ..tokens.words import joins

DIVIDING = 256
"""The number that is added to the first byte of a character that separates words. Such a character is a word by itself,
or white space."""

SPACE = DIVIDING + ord(" ")
"""The symbol of white space."""

END = 2 * DIVIDING
"""The symbol of the end of the text."""

NOTHING = END + 1
"""The padding of a token's symbols. It stands for no text."""

UNSURE = NOTHING + 1 - 0xC0
"""The number that is added to the first byte of a character if a token has that byte only. The character, and whether
it separates words, is known only after the next tokens."""

SYMBOLS = UNSURE + 256
"""The number of different symbols."""

_BYTE = re.compile("<0x([0-9A-F]{2})>")  # the spelling of a token for a single byte (byte fallback)
Symbols = tuple[int, ...]
"""The symbols of a text or of a phrase."""


class TokenText:
    """The text that each token adds to a translation, as symbols.

    The symbols of a character are its UTF-8 bytes. If the character separates words, `DIVIDING` is added to its first
    byte. There is a word boundary between two characters if at least one of them separates words. White space is
    `SPACE`. The text of a token is computed by decoding the token between two other tokens, so it is right for every
    tokenizer.

    Args:
        tokenizer: the tokenizer of a run.
        tokenized: whether the text has spaces between all words. If True, only white space separates words. If False,
            all characters do, except letters, digits and combining marks of scripts that are written with spaces.
    """

    def __init__(self, tokenizer: Tokenizer, tokenized: bool) -> None:
        self._tokenizer_of_run = tokenizer
        self.tokenized = tokenized

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the target language."""
        return self._tokenizer_of_run.of_target

    @cached_property
    def symbols(self) -> npt.NDArray[np.int16]:
        """The symbols of each token, int16 `(vocabulary size, longest)`, padded by `NOTHING`.

        PAD and BOS have no symbols, and EOS has `END`.
        """
        spellings = enumerate(_spell_tokens(self.tokenizer))
        rows = [self._symbols_of_token(token, piece, text) for token, (piece, text) in spellings]
        symbols = np.full((len(rows), max(map(len, rows))), NOTHING, np.int16)
        for token, row in enumerate(rows):
            symbols[token, : len(row)] = row
        return symbols

    def of_text(self, text: str) -> Symbols:
        """Returns the symbols of a text. White space at its ends is removed, and several spaces become one."""
        text = " ".join(text.split())
        return tuple(symbol for character in text for symbol in self._symbols_of_character(character))

    def of_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Returns the symbols of a sequence of token ids, one token after the other."""
        return [int(symbol) for token in tokens for symbol in self.symbols[token] if symbol != NOTHING]

    def _symbols_of_token(self, token: int, piece: str, text: str) -> list[int]:
        """Returns the symbols of a token, given its id, its spelling in the vocabulary and the text that it adds."""
        if token in (PAD, BOS):
            return []
        if token == EOS:
            return [END]
        if text != piece and (byte := _BYTE.fullmatch(piece)):
            value = int(byte[1], 16)
            if value < 0x80:
                return self._symbols_of_character(chr(value))
            return [value] if value < 0xC0 else [value + UNSURE]
        return [symbol for character in text for symbol in self._symbols_of_character(character)]

    def _symbols_of_character(self, character: str) -> list[int]:
        """Returns the symbols of a character: `SPACE`, or its UTF-8 bytes."""
        if character.isspace():
            return [SPACE]
        first_byte, *further_bytes = character.encode()
        divides = not self.tokenized and not joins(character)
        return [first_byte + DIVIDING * divides, *further_bytes]


def _spell_tokens(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Returns for each token its spelling in the vocabulary, and the text that it adds between two other tokens."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    letters = [token for token, piece in enumerate(pieces) if token > EOS and piece.isalpha()]
    between = min(letters, key=lambda token: len(pieces[token]), default=EOS + 1)
    before, both, *texts = tokenizer.decode(
        [[between], [between] * 2, *([between, token, between] for token in range(len(pieces)))]
    )
    length_before = len(before)
    length_after = len(both) - len(before)
    return [(piece, text[length_before : len(text) - length_after]) for piece, text in zip(pieces, texts, strict=True)]


def contains(text: Sequence[int], phrase: Symbols) -> bool:
    """Returns whether a text contains a phrase as whole words.

    Args:
        text: the symbols of a whole text. Its beginning and its end are word boundaries.
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
    """Returns whether there is a word boundary between two neighbouring parts of a text.

    Args:
        before: the symbols of the first part, at least one.
        after: the symbols of the second part, at least one.
    """
    last_character = next(symbol for symbol in reversed(before) if not 0x80 <= symbol < 0xC0)
    return last_character >= DIVIDING or after[0] >= DIVIDING

"""The beginnings of translations that a file gives: a line for each sentence, empty for none."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .lines import read_lines

if TYPE_CHECKING:
    from .tokenizer import Tokenizer  # loads SentencePiece, and help texts must be fast


class PrefixFile:
    """Reads prefixes, in turn.

    Args:
        path: the file.
        tokenizer: the run's.
        max_positions: the maximum number of tokens of a target.
    """

    def __init__(self, path: Path, tokenizer: "Tokenizer", max_positions: int) -> None:
        self._path = path
        self._lines = read_lines(path)
        self._tokenizer = tokenizer
        self._longest = max_positions - 1  # one more token at least
        self._taken = 0

    def take(self, count: int) -> list[list[int]]:
        """Returns the ids of the next `count` prefixes.

        Raises:
            InputError: there are fewer, or one is too long.
        """
        first, self._taken = self._taken, self._taken + count
        if self._taken > len(self._lines):
            raise InputError(
                f"{self._path}: {len(self._lines):,} lines, and there are more sentences to translate; expected a line "
                "for each, empty where nothing is given"
            )
        prefixes = self._tokenizer.encode(self._lines[first : self._taken])
        for line, ids in enumerate(prefixes, first + 1):
            if len(ids) > self._longest:
                raise InputError(
                    f"{self._path}:{line}: {len(ids):,} tokens; expected at most {self._longest:,}, one less than "
                    "model.max_positions"
                )
        return prefixes

    def check_all_taken(self) -> None:
        """Checks that no line is left.

        Raises:
            InputError: there are more lines than sentences.
        """
        if self._taken < len(self._lines):
            raise InputError(
                f"{self._path}: {len(self._lines):,} lines, and only {self._taken:,} sentences to translate; expected "
                "a line for each"
            )

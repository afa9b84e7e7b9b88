"""Files with a line for each sentence: beginnings of translations and required phrases."""

from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..lines.text_file import read_lines
from ..tokens.tokenizer import Tokenizer
from .banned import BannedPhrases, read_banned
from .required import RequiredPhrase, read_required
from .token_text import TokenText


class SentenceFiles:
    """Reads the constraints on translations, line by line as their sentences come.

    Args:
        prefix: the file of prefixes, or None.
        require: the file of required phrases, or None.
        ban: the file of banned phrases, or None; see `read_banned`.
        tokens: the tokens of the target language.
        max_positions: the maximum number of tokens of a target.

    Attributes:
        banned: what no translation contains, or None.
    """

    def __init__(
        self, prefix: Path | None, require: Path | None, ban: Path | None, tokens: TokenText, max_positions: int
    ) -> None:
        self.banned = read_banned(ban, tokens, leads_out=require is not None) if ban else None
        self._prefixes = LinesInTurn(prefix) if prefix else None
        self._required = LinesInTurn(require) if require else None
        self._tokens, self._longest = tokens, max_positions

    def take(self, count: int) -> tuple[list[list[int]] | None, list[list[RequiredPhrase]] | None]:
        """Returns the prefixes and the required phrases of the next `count` sentences; None without such a file.

        Raises:
            InputError: there are fewer, or some cannot be kept to.
        """
        prefixes = required = None
        if self._prefixes:
            prefixes = _read_prefixes(self._prefixes.take(count), self._tokens.tokenizer, self._longest, self.banned)
        if self._required:
            taken = [len(ids) for ids in prefixes] if prefixes else [0] * count
            required = read_required(self._required.take(count), taken, self._tokens, self._longest, self.banned)
        return prefixes, required

    def check_all_taken(self) -> None:
        """Raises an `InputError` if there are more lines than sentences."""
        for file in (self._prefixes, self._required):
            if file:
                file.check_all_taken()


def _read_prefixes(
    lines: Sequence[tuple[str, str]], tokenizer: Tokenizer, longest: int, banned: BannedPhrases | None = None
) -> list[list[int]]:
    """Returns the ids of prefixes, which come with their places; a target has at most `longest` tokens."""
    prefixes = tokenizer.encode([line for _, line in lines])
    for (place, _), ids in zip(lines, prefixes, strict=True):
        if len(ids) >= longest:
            raise InputError(f"{place}: {len(ids):,} tokens; expected fewer than model.max_positions ({longest:,})")
        if banned and (phrase := banned.find_in_beginning(ids)):
            raise InputError(f"{place}: contains {phrase!r}, which is banned; remove it from one of the two files")
    return prefixes


class LinesInTurn:
    """Takes the lines of a file in turn."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = read_lines(path)
        self._taken = 0

    def take(self, count: int) -> list[tuple[str, str]]:
        """Returns the next `count` lines, each with its place, as messages name it.

        Raises:
            InputError: there are fewer.
        """
        first, self._taken = self._taken, self._taken + count
        if self._taken > len(self._lines):
            raise InputError(
                f"{self.path}: {len(self._lines):,} lines, and there are more sentences to translate; expected a line "
                "for each, empty where nothing is given"
            )
        lines = self._lines[first : self._taken]
        return [(f"{self.path}:{number}", line) for number, line in enumerate(lines, first + 1)]

    def check_all_taken(self) -> None:
        """Raises an `InputError` if there are more lines than sentences."""
        if self._taken < len(self._lines):
            raise InputError(
                f"{self.path}: {len(self._lines):,} lines, and only {self._taken:,} sentences to translate; expected "
                "a line for each"
            )

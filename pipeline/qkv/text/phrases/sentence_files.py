"""Readers of the files of constraints on translations: prefixes, required phrases and banned phrases."""

from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..lines.text_file import read_lines
from ..lines.typed_line import LineReader
from ..tokens.tokenizer import Tokenizer
from .banned import BannedPhrases, read_banned
from .required import RequiredPhrase, read_required
from .token_text import TokenText


class ConstraintFiles:
    """The files of constraints on translations. `take` reads them in step with the sentences to translate.

    Args:
        prefix: the file with a prefix of the translation for each sentence; None: no prefixes.
        require: the file with the required phrases of each sentence; None: no required phrases.
        ban: the file of banned phrases, see `text.phrases.banned.read_banned`; None: no banned phrases.
        tokens: the text of the target language's tokens.
        max_positions: the maximum number of tokens in a target.

    Attributes:
        banned: the banned phrases, or None.

    Raises:
        InputError: a file cannot be read as text; or see `text.phrases.banned.read_banned`.
    """

    def __init__(
        self, prefix: Path | None, require: Path | None, ban: Path | None, tokens: TokenText, max_positions: int
    ) -> None:
        self.banned = read_banned(ban, tokens, leads_out=require is not None) if ban else None
        self._prefix = prefix
        self._require = require
        self._lines = {path: read_lines(path) for path in (prefix, require) if path}
        self._readers = {path: LineReader(tokens.tokenizer, dividers="\t" * (path == require)) for path in self._lines}
        self._taken = 0
        self._tokens = tokens
        self._longest = max_positions

    def take(self, count: int) -> tuple[list[list[int]] | None, list[list[RequiredPhrase]] | None]:
        """Returns the constraints of the next `count` sentences.

        Returns:
            The ids of each prefix, and the required phrases of each sentence. Either is None if there is no such file.

        Raises:
            InputError: a file has fewer lines than there are sentences; a prefix is too long or contains a banned
                phrase; or see `text.phrases.required.read_required`.
        """
        first = self._taken
        self._taken += count
        prefixes = required = None
        if self._prefix:
            lines = self._lines_from(first, self._prefix)
            prefixes = _read_prefixes(lines, self._tokens.tokenizer, self._longest, self.banned)
        if self._require:
            lines = self._lines_from(first, self._require)
            prefix_lengths = [len(ids) for ids in prefixes] if prefixes else [0] * count
            required = read_required(lines, prefix_lengths, self._tokens, self._longest, self.banned)
        return prefixes, required

    def _lines_from(self, first: int, path: Path) -> list[tuple[str, str]]:
        """Returns `(file:line, line)` for the lines from index `first` up to the last sentence that was taken.

        Raises:
            InputError: the file has fewer lines.
        """
        lines = self._lines[path]
        if self._taken > len(lines):
            raise InputError(
                f"{path}: {len(lines):,} lines, and there are more sentences to translate; expected a line for each, "
                "empty where nothing is given"
            )
        locations = [f"{path}:{number}" for number in range(first + 1, self._taken + 1)]
        texts = self._readers[path](zip(locations, lines[first : self._taken], strict=True))
        return list(zip(locations, texts, strict=True))

    def check_all_taken(self) -> None:
        """Raises an `InputError` if a file of prefixes or required phrases has more lines than `take` has read."""
        for path, lines in self._lines.items():
            if self._taken < len(lines):
                raise InputError(
                    f"{path}: {len(lines):,} lines, and only {self._taken:,} sentences to translate; expected a line "
                    "for each"
                )


def _read_prefixes(
    lines: Sequence[tuple[str, str]], tokenizer: Tokenizer, longest: int, banned: BannedPhrases | None = None
) -> list[list[int]]:
    """Returns the ids of prefixes.

    Args:
        lines: `(file:line, line)` for each prefix; `file:line` is for messages.
        tokenizer: the tokenizer of the target language.
        longest: the maximum number of tokens in a target.
        banned: the banned phrases; None if there are none.

    Raises:
        InputError: a prefix has `longest` tokens or more, or contains a banned phrase.
    """
    prefixes = tokenizer.encode([line for _, line in lines])
    for (location, _), ids in zip(lines, prefixes, strict=True):
        if len(ids) >= longest:
            raise InputError(f"{location}: {len(ids):,} tokens; expected fewer than model.max_positions ({longest:,})")
        if banned and (phrase := banned.find_in_beginning(ids)):
            raise InputError(f"{location}: contains {phrase!r}, which is banned; remove it from one of the two files")
    return prefixes

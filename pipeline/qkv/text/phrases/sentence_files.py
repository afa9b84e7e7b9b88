"""Files with a line for each sentence: beginnings of translations and required phrases."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from ..lines.line import is_empty
from ..lines.text_file import read_lines
from .banned import BannedPhrases, read_banned
from .required import MOST_PHRASES, RequiredPhrase, tokens_needed, write_phrase
from .token_text import TokenText

if TYPE_CHECKING:
    from ..tokens.tokenizer import Tokenizer
    from .token_text import TokenText


class GivenFiles:
    """Reads the files, those with a line for each sentence in turn.

    Args:
        prefix: see `PrefixFile`; None for none, as below.
        require: see `RequiredFile`.
        ban: see `read_banned`.
        tokens: those of the target language.
        max_positions: the maximum number of tokens of a target.

    Attributes:
        banned: what no translation contains, or None.
    """

    def __init__(
        self, prefix: Path | None, require: Path | None, ban: Path | None, tokens: "TokenText", max_positions: int
    ) -> None:
        self.banned = read_banned(ban, tokens, leads_out=require is not None) if ban else None
        self._prefixes = PrefixFile(prefix, tokens.tokenizer, max_positions, self.banned) if prefix else None
        self._required = RequiredFile(require, tokens, max_positions, self.banned) if require else None

    def take(self, count: int) -> tuple[list[list[int]] | None, list[list[RequiredPhrase]] | None]:
        """Returns the prefixes and the required phrases of the next `count` sentences; None without such a file.

        Raises:
            InputError: there are fewer, or some cannot be kept to.
        """
        prefixes = self._prefixes.take(count) if self._prefixes else None
        return prefixes, self._required.take(count, prefixes) if self._required else None

    def check_all_taken(self) -> None:
        """Checks that no line is left.

        Raises:
            InputError: there are more lines than sentences.
        """
        for file in (self._prefixes, self._required):
            if file:
                file.check_all_taken()


class GivenLines:
    """Takes lines in turn.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = read_lines(path)
        self._taken = 0

    def take_lines(self, count: int) -> list[tuple[str, str]]:
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
        """Checks that no line is left.

        Raises:
            InputError: there are more lines than sentences.
        """
        if self._taken < len(self._lines):
            raise InputError(
                f"{self.path}: {len(self._lines):,} lines, and only {self._taken:,} sentences to translate; expected "
                "a line for each"
            )


class PrefixFile(GivenLines):
    """Reads prefixes, in turn.

    Args:
        path: the file.
        tokenizer: the run's.
        max_positions: the maximum number of tokens of a target.
        banned: what no translation may contain, if anything.
    """

    def __init__(
        self, path: Path, tokenizer: "Tokenizer", max_positions: int, banned: "BannedPhrases | None" = None
    ) -> None:
        super().__init__(path)
        self._tokenizer = tokenizer.of_target
        self._longest = max_positions - 1  # one more token at least
        self._banned = banned

    def take(self, count: int) -> list[list[int]]:
        """Returns the ids of the next `count` prefixes.

        Raises:
            InputError: there are fewer, or one is too long or contains a banned phrase.
        """
        lines = self.take_lines(count)
        prefixes = self._tokenizer.encode([line for _, line in lines])
        for (place, _), ids in zip(lines, prefixes, strict=True):
            if len(ids) > self._longest:
                raise InputError(
                    f"{place}: {len(ids):,} tokens; expected at most {self._longest:,}, one less than "
                    "model.max_positions"
                )
            if self._banned and (phrase := self._banned.find_in_beginning(ids)):
                raise InputError(f"{place}: contains {phrase!r}, which is banned; remove it from one of the two files")
        return prefixes


class RequiredFile(GivenLines):
    """Reads the required phrases of sentences, in turn.

    Args:
        path: the file.
        tokens: the tokens of the target language.
        max_positions: the maximum number of tokens of a target.
        banned: what no translation may contain, if anything.
    """

    def __init__(self, path: Path, tokens: TokenText, max_positions: int, banned: BannedPhrases | None = None) -> None:
        super().__init__(path)
        self._tokens, self._longest, self._banned = tokens, max_positions, banned

    def take(self, count: int, prefixes: Sequence[list[int]] | None = None) -> list[list[RequiredPhrase]]:
        """Returns the phrases of the next `count` sentences.

        Args:
            count: of the sentences.
            prefixes: the tokens with which their translations begin.

        Raises:
            InputError: there are fewer, or phrases are empty, banned, too many or too long, or cannot be written with
                this vocabulary.
        """
        rows = []
        for number, (place, line) in enumerate(self.take_lines(count)):
            texts = list(dict.fromkeys(" ".join(text.split()) for text in line.split("\t")))
            texts = [] if is_empty(line) else texts
            if "" in texts:
                raise InputError(
                    f"{place}: an empty phrase; expected words or phrases separated by single tabs, and an empty line "
                    "for a sentence without any"
                )
            if len(texts) > MOST_PHRASES:
                raise InputError(f"{place}: {len(texts)} phrases; expected at most {MOST_PHRASES} for a sentence")
            row = [write_phrase(text, self._tokens, place) for text in texts]
            for phrase in row:
                if self._banned and (banned := self._banned.find(phrase.symbols)):
                    raise InputError(
                        f"{place}: {phrase.text!r} is required, and {banned!r} is banned; remove one of the two"
                    )
            given = len(prefixes[number]) if prefixes else 0
            needed = tokens_needed(row)
            if row and given + needed > self._longest:
                raise InputError(
                    f"{place}: the phrases need {needed:,} tokens{f' after {given:,} of the prefix' * bool(given)}; "
                    f"expected at most {self._longest:,}, model.max_positions; require less"
                )
            rows.append(row)
        return rows

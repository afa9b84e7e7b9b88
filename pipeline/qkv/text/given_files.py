"""What is known of the translations of sentences, from files: their beginnings, required and banned phrases."""

from pathlib import Path
from typing import TYPE_CHECKING

from .banned import read_banned
from .prefixes import PrefixFile
from .required import RequiredFile, RequiredPhrase

if TYPE_CHECKING:
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

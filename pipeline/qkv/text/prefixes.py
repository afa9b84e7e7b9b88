"""The beginnings of translations that a file gives: a line for each sentence, empty for none."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .given_lines import GivenLines

if TYPE_CHECKING:
    from .banned import BannedPhrases
    from .tokenizer import Tokenizer  # loads SentencePiece, and help texts must be fast


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

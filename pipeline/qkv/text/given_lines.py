"""Lines that a file gives for the sentences that are translated: one for each, in their order."""

from pathlib import Path

from ..errors import InputError
from .lines import read_lines


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

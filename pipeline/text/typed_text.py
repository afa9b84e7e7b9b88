"""Makes typed text look like the text that a run was trained on, and says where it does not."""

import functools
import logging
from collections.abc import Callable, Sequence

from .look import WORD, TextLook

log = logging.getLogger(__name__)

_MARKS = ".,!?;:"


class Normalizer:
    """Lower-cases and divides typed lines as the training text is. Lines that look like it stay as they are.

    Args:
        look: what the training text looks like.
        lowercase: whether to lower-case. Where the training text has capitals, only the first word of a line is
            lower-cased, unless the training text has it with its capital or its sentences begin with capitals.
        divide: puts a space between words and marks; None leaves them as they are.
    """

    def __init__(self, look: TextLook, lowercase: bool, divide: Callable[[str], str] | None) -> None:
        self._look = look
        self._lowercase = lowercase
        self._divide = divide and functools.lru_cache(maxsize=10_000)(divide)  # typed words are soon repeated

    def __call__(self, line: str) -> str:
        """Returns a line as the training text would have it."""
        if self._lowercase and self._look.capitals == "none":
            line = line.lower()
        if self._divide and not all(map(self._is_whole, filter(None, line.split(" ")))):
            line = self._divide(line)
        if self._lowercase and self._look.capitals == "names":
            line = lower_first_word(line, self._look.capitalised)
        return line

    def _is_whole(self, word: str) -> bool:
        """Returns whether a word is one of the training text's, or would not be divided."""
        assert self._divide
        return word.isalnum() or word in self._look.marked or self._divide(word) == word


class LookWarning:
    """Warns once where most of the lines that arrive together do not look like the training text."""

    def __init__(self, look: TextLook | None) -> None:
        self._look = look

    def check(self, lines: Sequence[str]) -> None:
        """Looks at lines as the model is given them."""
        if self._look is None:
            return
        found = [difference for line in lines if (difference := find_difference(line, self._look))]
        if 2 * len(found) > sum(map(bool, map(str.strip, lines))):
            log.warning(
                "warning: the input does not look like the text that the run was trained on: %s; expected sentences "
                "such as: %s",
                found[0],
                self._look.example,
            )
            self._look = None


def lower_first_word(line: str, capitalised: frozenset[str]) -> str:
    """Lower-cases the first word of a line, unless it is one of those with a capital."""
    first = WORD.search(line)
    if first is None or first[0] in capitalised:
        return line
    return line[: first.start()] + first[0].lower() + line[first.end() :]


def find_difference(line: str, look: TextLook) -> str | None:
    """Returns in words why a line does not look like a text, or None."""
    words = [word for word in line.split(" ") if word]
    first = WORD.search(line)
    if look.tokenized and any(word[-1] in _MARKS and word[:-1].isalpha() for word in words if word not in look.marked):
        return "marks are attached to words"
    if not look.tokenized and any(word in (".", ",") for word in words):
        return "marks are separated from words by spaces"
    if look.capitals == "none" and line != line.lower():
        return "it has capital letters"
    if first is None:
        return None
    if look.capitals == "names" and first[0][0].isupper() and first[0] not in look.capitalised:
        return "it begins with a capital letter"
    if look.capitals == "sentences" and first[0][0].islower():
        return "it begins without a capital letter"
    return None

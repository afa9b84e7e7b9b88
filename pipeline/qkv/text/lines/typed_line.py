"""Text that people write, as a run reads it, and the warnings where it is not like the training text.

All sentences that are no part of a run's own text come this way: of streams and files, from Python, and of pages.
"""

import functools
import logging
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby

from ...errors import InputError
from ..tokens.special_tokens import UNK
from ..tokens.tokenizer import Tokenizer
from .line import as_line, is_empty, without_tag
from .look import WORD, TextLook, find_difference

log = logging.getLogger(__name__)
MOST_CHARACTERS = 10  # that are named as unknown; once there are as many, later ones are not
MOST_CUT_LINES = 20


class Normalizer:
    """Lower-cases and divides typed lines as the training text is. Lines that look like it stay as they are.

    Args:
        look: of the training text.
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
            parts = [(kept, " ".join(words)) for kept, words in groupby(line.split(" "), self._is_kept)]
            line = " ".join(filter(None, (part if kept else self._divide(part) for kept, part in parts)))
        first = WORD.search(line) if self._lowercase and self._look.capitals == "names" else None
        if first and first[0] not in self._look.capitalised:
            line = line[: first.start()] + first[0].lower() + line[first.end() :]
        return line

    def _is_kept(self, word: str) -> bool:
        """Returns whether a word is one of the training text's that Moses would divide among others, such as `'s`."""
        return word in self._look.marked and any(map(str.isalnum, word))

    def _is_whole(self, word: str) -> bool:
        """Returns whether a word is one of the training text's, or would not be divided."""
        assert self._divide
        return word.isalnum() or word in self._look.marked or self._divide(word) == word


@dataclass
class TypedText:
    """Reads lines that a person has written. It warns once where most of the lines that come together look unlike the
    training text, once of each character that the model does not know, and of each line that is cut.

    Args:
        tokenizer: the run's, of the side that the lines are of.
        look: of the training text on that side; None where it is not known.
        normalize: makes a line look like it; None to read lines as they are.
        longest: the maximum number of tokens that are read of a line, without EOS.
        name: of the text in messages, such as the path of its file.
    """

    tokenizer: Tokenizer
    look: TextLook | None
    normalize: Callable[[str], str] | None
    longest: int
    name: str
    _seen: set[str] = field(default_factory=set, init=False)  # characters of lines that have unknown ones
    _unknown: int = field(default=0, init=False)
    _cut_lines: int = field(default=0, init=False)

    def read(self, lines: Iterable[str], numbers: Iterable[int] | None = None) -> tuple[list[str], list[list[int]]]:
        """Returns lines as the model reads them, and their tokens, which are not cut.

        Args:
            lines: some lines of the text.
            numbers: of the lines, as messages name them; by default 1, 2, and so on.

        Raises:
            InputError: a line has several lines in it, or is no text.
        """
        if isinstance(lines, str):
            raise InputError(f"{self.name}: expected a list of sentences, found the text {lines!r:.60}: put it in [ ]")
        places = (f"{self.name}:{number}" for number in numbers or count(1))
        named = list(zip(lines, places, strict=False))
        texts = [as_line(line, place) for line, place in named]
        if self.normalize:
            texts = list(map(self.normalize, texts))
        ids = self.tokenizer.encode(texts)
        self._warn_of_look([without_tag(text, self.tokenizer.tags) for text in texts])
        for text, row, (_, place) in zip(texts, ids, named, strict=True):
            self._warn_of_line(text, row, place)
        return texts, ids

    def _warn_of_look(self, texts: Sequence[str]) -> None:
        if self.look is None:
            return
        found = [difference for text in texts if (difference := find_difference(text, self.look))]
        if 2 * len(found) > sum(not is_empty(text) for text in texts):
            log.warning(
                "warning: the input does not look like the text that the run was trained on: %s; expected sentences "
                "such as: %s",
                found[0],
                self.look.example,
            )
            self.look = None

    def _warn_of_line(self, text: str, ids: Sequence[int], place: str) -> None:
        if UNK in ids and self._unknown < MOST_CHARACTERS:
            new = "".join(character for character in dict.fromkeys(text) if character not in self._seen)
            self._seen.update(new)
            if unknown := find_unknown(new, self.tokenizer):
                log.warning(
                    "warning: %s: the model does not know %s, which its training text does not have; it reads each as "
                    "unknown",
                    place,
                    name_characters(unknown),
                )
            self._unknown += len(unknown)
        if len(ids) > self.longest:
            self._cut_lines += 1
            if self._cut_lines <= MOST_CUT_LINES:
                log.warning(
                    "warning: %s: %s tokens; the model reads the first %s and leaves out the rest: divide the line%s",
                    place,
                    f"{len(ids):,}",
                    f"{self.longest:,}",
                    "; further such lines are not named" if self._cut_lines == MOST_CUT_LINES else "",
                )


def find_unknown(text: str, tokenizer: Tokenizer) -> list[str]:
    """Returns the characters of a text that the vocabulary lacks, each once and in their order."""
    characters = [character for character in dict.fromkeys(text) if not is_empty(character)]
    return [one for one, ids in zip(characters, tokenizer.encode(characters), strict=True) if UNK in ids]


def name_characters(characters: Sequence[str]) -> str:
    """Returns characters as a message names them: the first few in quotes, those without a shape by their codes."""
    named = [
        f"U+{ord(one):04X}" if not one.isprintable() or unicodedata.category(one).startswith("M") else repr(one)
        for one in characters[:MOST_CHARACTERS]
    ]
    others = len(characters) - len(named)
    return ", ".join(named) + (f" and {others} more" if others else "")

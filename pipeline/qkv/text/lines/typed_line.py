"""Text that people write, as a run reads it, and the warnings where it is not like the training text.

All sentences that are no part of a run's own text come this way: of streams and files, from Python, and of pages.
"""

import functools
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby

from ...errors import InputError
from ..tokens.special_tokens import UNK
from ..tokens.tokenizer import Tokenizer
from .line import as_line, is_empty, name_code, without_tag
from .style import WORD, TextStyle, find_difference

log = logging.getLogger(__name__)
MOST_REPORTED = 10  # that are named as unknown; once there are as many, later ones are not
MOST_CUT_LINES = 20


class Normalizer:
    """Lower-cases and divides typed lines as the training text is. Lines that look like it stay as they are.

    Args:
        style: of the training text.
        lowercase: whether to lower-case. Where the training text has capitals, only the first word of a line is
            lower-cased, unless the training text has it with its capital or its sentences begin with capitals.
        divide: puts a space between words and marks; None leaves them as they are.
    """

    def __init__(self, style: TextStyle, lowercase: bool, divide: Callable[[str], str] | None) -> None:
        self._style = style
        self._lowercase = lowercase
        self._divide = divide and functools.lru_cache(maxsize=10_000)(divide)  # typed words are soon repeated

    def __call__(self, line: str) -> str:
        """Returns a line as the training text would have it."""
        if self._lowercase and self._style.capitals == "none":
            line = line.lower()
        if self._divide and not all(map(self._is_whole, filter(None, line.split(" ")))):
            parts = [(kept, " ".join(words)) for kept, words in groupby(line.split(" "), self._is_kept)]
            line = " ".join(filter(None, (part if kept else self._divide(part) for kept, part in parts)))
        first = WORD.search(line) if self._lowercase and self._style.capitals == "names" else None
        if first and first[0] not in self._style.capitalised:
            line = line[: first.start()] + first[0].lower() + line[first.end() :]
        return line

    def _is_kept(self, word: str) -> bool:
        """Returns whether a word is one of the training text's that Moses would divide among others, such as `'s`."""
        return word in self._style.marked and any(map(str.isalnum, word))

    def _is_whole(self, word: str) -> bool:
        """Returns whether a word is one of the training text's, or would not be divided."""
        assert self._divide
        return word.isalnum() or word in self._style.marked or self._divide(word) == word


class LineReader:
    """Reads lines as `as_line` does, and warns once of each invisible character that the tokenizer does not read.

    Args:
        tokenizer: the run's, of the side that the lines are of.
        dividers: characters that divide lines into parts, of which it does not warn.
    """

    def __init__(self, tokenizer: Tokenizer, dividers: str = "") -> None:
        self._tokenizer = tokenizer
        self._named = set(dividers)

    def __call__(self, lines: Iterable[tuple[str, str]]) -> list[str]:
        """Returns the text of lines, each given after its place, as messages name it.

        Raises:
            InputError: a line has several lines in it, or is no text.
        """
        texts, counts, first = [], Counter[str](), ""
        for place, line in lines:
            texts.append(text := as_line(line, place))
            if is_empty(text) or text == self._tokenizer.as_read(text):
                continue
            if unread := set(text).intersection("".join(self._tokenizer.unread)) - self._named:
                first = first or place
                counts.update({character: text.count(character) for character in sorted(unread)})
        if counts:
            self._named.update(counts)
            log.warning("warning: %s: %s", first, describe_unread(counts, self._tokenizer))
        return texts


@dataclass
class TypedText:
    """Reads lines that a person has written. It warns once if most of the lines that come together look unlike the
    training text, once of each character that the model does not know, and of each line that is cut.

    Args:
        tokenizer: the run's, of the side that the lines are of.
        style: of the training text on that side; None where it is not known.
        normalize: makes a line look like it; None to read lines as they are.
        longest: the maximum number of tokens that are read of a line, without EOS.
        name: of the text in messages, such as the path of its file.
    """

    tokenizer: Tokenizer
    style: TextStyle | None
    normalize: Callable[[str], str] | None
    longest: int
    name: str
    _read_lines: LineReader = field(init=False)
    _seen: set[str] = field(default_factory=set, init=False)  # characters of lines that have unknown ones
    _unknown: int = field(default=0, init=False)
    _cut_lines: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._read_lines = LineReader(self.tokenizer)

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
        named = self._with_places(lines, numbers)
        texts = self._read_lines(named)
        if self.normalize:
            texts = list(map(self.normalize, texts))
        ids = self.tokenizer.encode(texts)
        read = list(map(self.tokenizer.as_read, texts))
        self._warn_of_look([without_tag(text, self.tokenizer.tags) for text in read])
        for text, row, (place, _) in zip(read, ids, named, strict=True):
            self._warn_of_line(text, row, place)
        return texts, ids

    def readable(self, lines: Iterable[str], numbers: Iterable[int] | None = None) -> list[str]:
        """Returns lines without the invisible characters that are left out, to be divided into sentences before they
        are read; the arguments and errors are those of `read`."""
        texts = self._read_lines(self._with_places(lines, numbers))
        return list(map(self.tokenizer.without_format_characters, texts))

    def _with_places(self, lines: Iterable[str], numbers: Iterable[int] | None) -> list[tuple[str, str]]:
        return [(f"{self.name}:{number}", line) for line, number in zip(lines, numbers or count(1), strict=False)]

    def _warn_of_look(self, texts: Sequence[str]) -> None:
        if self.style is None:
            return
        found = [difference for text in texts if (difference := find_difference(text, self.style))]
        if 2 * len(found) > sum(not is_empty(text) for text in texts):
            log.warning(
                "warning: the input does not look like the text that the run was trained on: %s; expected sentences "
                "such as: %s",
                found[0],
                self.style.example,
            )
            self.style = None

    def _warn_of_line(self, text: str, ids: Sequence[int], place: str) -> None:
        if UNK in ids and self._unknown < MOST_REPORTED:
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
    """Returns the characters of a text that are read as unknown, each once and in their order."""
    characters = list(dict.fromkeys(tokenizer.as_read(text)))
    encoded = zip(characters, tokenizer.encode(characters), strict=True)
    # Invisible characters are not encoded by themselves.
    unseen = tokenizer.lacking(character for character in characters if is_empty(character) and character != " ")
    return [character for character, ids in encoded if UNK in ids or character in unseen]


def name_characters(characters: Sequence[str]) -> str:
    """Returns characters as a message names them: the first few in quotes, those without a shape by their codes."""
    named = [
        name_code(one) if not one.isprintable() or unicodedata.category(one).startswith("M") else repr(one)
        for one in characters[:MOST_REPORTED]
    ]
    others = len(characters) - len(named)
    return ", ".join(named) + (f" and {others} more" if others else "")


def describe_unread(characters: Iterable[str], tokenizer: Tokenizer) -> str:
    """Returns in words which invisible characters of a text the model does not read, how many there are of each, and
    what it reads instead; empty if there are none."""
    counts = Counter(characters)
    told = ("left out", tokenizer.unread.left_out), ("read as a space", tokenizer.unread.spaces)
    named = [
        f"{what}: {', '.join(f'{name_code(one)} ({counts[one]})' for one in unread)}"
        for what, unread in ((what, sorted(counts.keys() & set(kind))) for what, kind in told)
        if unread
    ]
    return f"invisible characters that the training text does not have, {'; '.join(named)}" if named else ""

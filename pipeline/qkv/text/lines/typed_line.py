"""Reads lines that users write, and warns if they are unlike the training text.

`text.text_reader` makes the readers of a run.
"""

import functools
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import NamedTuple

from ...errors import InputError
from ..tokens.special_tokens import UNK
from ..tokens.tokenizer import Tokenizer
from .line import as_line, find_tag, is_empty, name_code, without_tag
from .sentences import Paragraph, SentenceSplitter
from .style import WORD, TextStyle, find_difference

log = logging.getLogger(__name__)

MOST_REPORTED = 10
"""The number of unknown characters after which a text gets no further warnings of them; a warning names at most as
many."""

MOST_CUT_LINES = 20
"""The number of lines of a text that get a warning because they are cut."""


class Normalizer:
    """Gives typed lines the style of the training text. A line that has this style already is not changed.

    The tag at the beginning of a line is not changed either.

    Args:
        style: the style of the training text.
        lowercase: whether to lower-case. If the training text has no capitals, the whole line is lower-cased. If only
            its names have capitals, the first word of the line is lower-cased, unless the training text has the word
            with a capital. If its sentences begin with capitals, nothing is lower-cased.
        divide: a function that puts a space between words and punctuation; None leaves them unchanged.
        clean: a function that replaces or leaves out the invisible characters that the model does not read. It is
            applied first; None leaves them unchanged.
        tags: the words that are tags if a line begins with them.
    """

    def __init__(
        self,
        style: TextStyle,
        lowercase: bool,
        divide: Callable[[str], str] | None,
        clean: Callable[[str], str] | None = None,
        tags: Collection[str] = (),
    ) -> None:
        self._style = style
        self._lowercase = lowercase
        # The cache helps because typed words are soon repeated.
        self._divide = divide and functools.lru_cache(maxsize=10_000)(divide)
        self._clean = clean
        self._tags = tags

    def __call__(self, line: str) -> str:
        """Returns a line in the style of the training text."""
        if self._clean:
            line = self._clean(line)
        tag = find_tag(line, self._tags)
        return self._normalize(line) if tag is None else f"{tag} {self._normalize(without_tag(line, self._tags))}"

    def _normalize(self, line: str) -> str:
        """Returns a line without a tag in the style of the training text."""
        if self._lowercase and self._style.capitals == "none":
            line = line.lower()
        if self._divide and not all(map(self._is_whole, filter(None, line.split(" ")))):
            line = self._divide_words(line, self._divide)
        first = WORD.search(line) if self._lowercase and self._style.capitals == "names" else None
        if first and first[0] not in self._style.capitalised:
            line = line[: first.start()] + first[0].lower() + line[first.end() :]
        return line

    def _divide_words(self, line: str, divide: Callable[[str], str]) -> str:
        """Returns a line with spaces between words and punctuation. Words of `_is_known` are not divided."""
        parts = []
        for is_known, words in groupby(line.split(" "), self._is_known):
            part = " ".join(words)
            parts.append(part if is_known else divide(part))
        return " ".join(filter(None, parts))

    def _is_known(self, word: str) -> bool:
        """Returns whether a word of letters and other characters, such as `'s`, occurs in the training text.

        Moses might divide such a word in a sentence.
        """
        return word in self._style.marked and any(map(str.isalnum, word))

    def _is_whole(self, word: str) -> bool:
        """Returns whether a word need not be divided.

        It has only letters and digits, occurs in the training text, or is not changed by `divide`.
        """
        assert self._divide
        return word.isalnum() or word in self._style.marked or self._divide(word) == word


class LineReader:
    """Checks and normalises lines by `text.lines.line.as_line`.

    Warns once of each invisible character that the tokenizer does not read.

    Args:
        tokenizer: the tokenizer of the language of the lines.
        dividers: the characters that divide a line into parts. There is no warning of them.
    """

    def __init__(self, tokenizer: Tokenizer, dividers: str = "") -> None:
        self._tokenizer = tokenizer
        self._named = set(dividers)

    def __call__(self, lines: Iterable[tuple[str, str]]) -> list[str]:
        """Returns the text of each line.

        Args:
            lines: `(location, line)` for each line; messages name the location, such as `file:line`.

        Raises:
            InputError: a line is not a `str`, has several lines in it, or has a NUL character or a lone surrogate.
        """
        texts = []
        counts = Counter[str]()
        first_location = ""
        for location, line in lines:
            text = as_line(line, location)
            texts.append(text)
            if is_empty(text) or text == self._tokenizer.as_read(text):
                continue
            if unread := set(text).intersection("".join(self._tokenizer.unread)) - self._named:
                first_location = first_location or location
                counts.update({character: text.count(character) for character in sorted(unread)})
        if counts:
            self._named.update(counts)
            log.warning("warning: %s: %s", first_location, describe_unread(counts, self._tokenizer))
        return texts


class ReadParagraphs(NamedTuple):
    """Lines, split into sentences that the model can read.

    - paragraphs: the sentences of each line.
    - texts: the sentences of all lines as the model reads them.
    - ids: the ids of these sentences, without BOS and EOS.
    """

    paragraphs: list[Paragraph]
    texts: list[str]
    ids: list[list[int]]


@dataclass
class TypedText:
    """Reads the lines of a text that a user has written, such as a file.

    It warns once if most lines of a call are unlike the training text, once of each character that the model does not
    know, and of each line that is cut.

    Args:
        tokenizer: the tokenizer of the language of the text.
        style: the style of the training text in this language; None if it is unknown: then lines are not compared.
        normalize: a function that gives a line the style of the training text; None leaves lines unchanged.
        max_tokens: the maximum number of tokens that the model reads of a line, without EOS.
        name: the name of the text in messages, such as the path of its file.
        splitter: splits lines into sentences; None if each line is one sentence.
    """

    tokenizer: Tokenizer
    style: TextStyle | None
    normalize: Callable[[str], str] | None
    max_tokens: int
    name: str
    splitter: SentenceSplitter | None = None
    _read_lines: LineReader = field(init=False)
    _seen: set[str] = field(default_factory=set, init=False)  # characters of lines that have unknown ones
    _unknown: int = field(default=0, init=False)
    _cut_lines: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._read_lines = LineReader(self.tokenizer)

    def read(self, lines: Iterable[str], numbers: Iterable[int] | None = None) -> tuple[list[str], list[list[int]]]:
        """Reads lines, each of which is a sentence.

        Args:
            lines: some lines of the text.
            numbers: the numbers of the lines in messages; by default 1, 2, and so on.

        Returns:
            `(texts, ids)`: each line as the model reads it, and all its ids without BOS and EOS, also those after
            `max_tokens`.

        Raises:
            InputError: `lines` is a single `str`; or a line is not a `str`, has several lines in it, or has a NUL
                character or a lone surrogate.
        """
        if isinstance(lines, str):
            raise InputError(f"{self.name}: expected a list of sentences, found the text {lines!r:.60}: put it in [ ]")
        located_lines = self._locate(lines, numbers)
        texts = self._read_lines(located_lines)
        if self.normalize:
            texts = list(map(self.normalize, texts))
        ids = self.tokenizer.encode(texts)
        read = list(map(self.tokenizer.as_read, texts))
        self._warn_of_style([without_tag(text, self.tokenizer.tags) for text in read])
        for text, row, (location, _) in zip(read, ids, located_lines, strict=True):
            self._warn_of_line(text, row, location)
        return texts, ids

    def read_paragraphs(self, lines: Sequence[str], numbers: Sequence[int]) -> ReadParagraphs:
        """Splits lines into sentences with the splitter, if there is one, and reads the sentences.

        Args:
            lines: some lines of the text.
            numbers: the numbers of the lines in messages.

        Raises:
            InputError: a line is not a `str`, has several lines in it, or has a NUL character or a lone surrogate.
        """
        if self.splitter is None:
            paragraphs = [Paragraph([line], []) for line in lines]
        else:
            paragraphs = list(map(self.splitter, self.readable(lines, numbers)))
        sentences: list[str] = []
        sentence_numbers: list[int] = []
        for paragraph, number in zip(paragraphs, numbers, strict=True):
            sentences += paragraph.sentences
            sentence_numbers += [number] * len(paragraph.sentences)
        return ReadParagraphs(paragraphs, *self.read(sentences, sentence_numbers))

    def readable(self, lines: Iterable[str], numbers: Iterable[int] | None = None) -> list[str]:
        """Returns lines without the invisible characters that the model leaves out.

        Such lines can be split into sentences before they are read.

        Args:
            lines: some lines of the text.
            numbers: the numbers of the lines in messages; by default 1, 2, and so on.

        Raises:
            InputError: a line is not a `str`, has several lines in it, or has a NUL character or a lone surrogate.
        """
        texts = self._read_lines(self._locate(lines, numbers))
        return list(map(self.tokenizer.without_format_characters, texts))

    def _locate(self, lines: Iterable[str], numbers: Iterable[int] | None) -> list[tuple[str, str]]:
        """Returns `(location, line)` for each line; the location is `NAME:NUMBER`."""
        return [(f"{self.name}:{number}", line) for line, number in zip(lines, numbers or count(1), strict=False)]

    def _warn_of_style(self, texts: Sequence[str]) -> None:
        """Warns if more than half of the texts that are not empty are unlike the training text."""
        if self.style is None:
            return
        differences = [difference for text in texts if (difference := find_difference(text, self.style))]
        if 2 * len(differences) > sum(not is_empty(text) for text in texts):
            log.warning(
                "warning: the input does not look like the text that the run was trained on: %s; expected sentences "
                "such as: %s",
                differences[0],
                self.style.example,
            )
            self.style = None  # no second warning

    def _warn_of_line(self, text: str, ids: Sequence[int], location: str) -> None:
        """Warns of the unknown characters of a line, and if it has too many tokens."""
        if UNK in ids and self._unknown < MOST_REPORTED:
            unseen = "".join(character for character in dict.fromkeys(text) if character not in self._seen)
            self._seen.update(unseen)
            if unknown := find_unknown(unseen, self.tokenizer):
                log.warning(
                    "warning: %s: the model does not know %s, which its training text does not have; it reads each as "
                    "unknown",
                    location,
                    name_characters(unknown),
                )
            self._unknown += len(unknown)
        if len(ids) > self.max_tokens:
            self._cut_lines += 1
            if self._cut_lines <= MOST_CUT_LINES:
                log.warning(
                    "warning: %s: %s tokens; the model reads the first %s and leaves out the rest: divide the line%s",
                    location,
                    f"{len(ids):,}",
                    f"{self.max_tokens:,}",
                    "; further such lines are not named" if self._cut_lines == MOST_CUT_LINES else "",
                )


def find_unknown(text: str, tokenizer: Tokenizer) -> list[str]:
    """Returns the characters of a text that the model reads as unknown, each once, in the order of the text."""
    characters = list(dict.fromkeys(tokenizer.as_read(text)))
    encoded = zip(characters, tokenizer.encode(characters), strict=True)
    # Invisible characters alone have no ids, so the vocabulary is searched for them.
    invisible = [character for character in characters if is_empty(character) and character != " "]
    lacking = tokenizer.lacking(invisible)
    return [character for character, ids in encoded if UNK in ids or character in lacking]


def name_characters(characters: Sequence[str]) -> str:
    """Returns characters as a phrase of a message.

    The phrase has the first `MOST_REPORTED` characters in quotes, and the number of the rest. Characters that cannot be
    shown alone, such as accents, are named by their codes.
    """
    names = [
        name_code(character)
        if not character.isprintable() or unicodedata.category(character).startswith("M")
        else repr(character)
        for character in characters[:MOST_REPORTED]
    ]
    more = len(characters) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def describe_unread(characters: Iterable[str], tokenizer: Tokenizer) -> str:
    """Returns a phrase about the invisible characters of a text that the model does not read.

    It says how often each character occurs, and whether it is left out or read as a space.

    Args:
        characters: the text, or the number of each of its characters.
        tokenizer: the tokenizer of the language of the text.

    Returns:
        The phrase; empty if the model reads all characters.
    """
    counts = Counter(characters)
    parts = []
    for effect, kind in (("left out", tokenizer.unread.left_out), ("read as a space", tokenizer.unread.spaces)):
        unread = sorted(counts.keys() & set(kind))
        if unread:
            named = ", ".join(f"{name_code(character)} ({counts[character]})" for character in unread)
            parts.append(f"{effect}: {named}")
    return f"invisible characters that the training text does not have, {'; '.join(parts)}" if parts else ""

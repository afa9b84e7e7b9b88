"""The surface style of a text: capitals, tokenisation and escapes, so that typed text can be given the same style.

The style of each side is measured when a run's text is prepared, and written to `source_look.json` and
`target_look.json`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from ...files.json import read_json_object, write_json
from .line import INVISIBLE, name_code, words_of

WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#\d+);")
_EXAMPLE_CHARACTERS = 60
_PUNCTUATION = ".,!?;:"


@dataclass(frozen=True)
class TextStyle:
    """The surface style of a text: capitals, tokenisation and escapes.

    Args:
        example: a sentence of the text.
        tokenized: whether spaces separate punctuation from words.
        escaped: whether characters are escaped, as in `&apos;`.
        capitals: `none`: there are no capitals. `sentences`: most sentences begin with a capital. `names`: words have
            capitals, but most sentences begin without one.
        capitalised: the words that occur with a capital; empty unless `capitals` is `names`.
        marked: the words with a character that is not a letter or digit, such as `p.m.` or a comma; empty unless
            `tokenized`.
    """

    example: str
    tokenized: bool
    escaped: bool
    capitals: str
    capitalised: frozenset[str]
    marked: frozenset[str]

    def write(self, path: Path) -> None:
        """Writes the style as a JSON file."""
        write_json(path, asdict(self) | {"capitalised": sorted(self.capitalised), "marked": sorted(self.marked)})

    @classmethod
    def read(cls, path: Path) -> "TextStyle | None":
        """Reads a file that `write` wrote. Returns None if it is missing, as in an imported run, or damaged."""
        try:
            values = read_json_object(path)
            return cls(**values | {key: frozenset(values[key]) for key in ("capitalised", "marked")})
        except (OSError, ValueError, KeyError, TypeError):
            return None


@dataclass
class StyleMeter:
    """Measures the surface style of a text, part by part.

    Args:
        tokenized: whether the text has spaces between words and punctuation.
        sentences: the number of sentences with a word.
        beginnings: the number of sentences whose first word begins with a capital.
        escaped: whether a character is escaped, as in `&apos;`.
        first: the first sentence with a word.
        first_short: the first such sentence of less than 60 characters.
        capitalised: the words with a capital at their beginning.
        counts: the number of times that each word occurs, words being separated by spaces; empty unless `tokenized`.
        invisible: the number of times that each invisible character occurs, by its code, such as U+00AD.
    """

    tokenized: bool
    sentences: int = 0
    beginnings: int = 0
    escaped: bool = False
    first: str = ""
    first_short: str = ""
    capitalised: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    invisible: Counter[str] = field(default_factory=Counter)

    def add(self, lines: Iterable[str]) -> None:
        """Measures the next lines of the text."""
        for line in lines:
            self.invisible.update(map(name_code, INVISIBLE.findall(line)))
            words = WORD.findall(line)
            if not words:
                continue
            self.sentences += 1
            self.beginnings += words[0][0].isupper()
            self.capitalised.update(word for word in words if word[0].isupper())
            self.escaped = self.escaped or bool(_ESCAPED.search(line))
            if self.tokenized:
                self.counts.update(words_of(line))
            self.first = self.first or line
            if not self.first_short and len(line) < _EXAMPLE_CHARACTERS:
                self.first_short = line

    def update(self, following: Self) -> None:
        """Adds the measurements of the next part of the text."""
        self.sentences += following.sentences
        self.beginnings += following.beginnings
        self.escaped = self.escaped or following.escaped
        self.first = self.first or following.first
        self.first_short = self.first_short or following.first_short
        self.capitalised |= following.capitalised
        self.counts.update(following.counts)
        self.invisible.update(following.invisible)

    @property
    def style(self) -> TextStyle:
        """The style of the text that has been measured so far."""
        example = self.first if len(self.first) <= _EXAMPLE_CHARACTERS else self.first_short or self.first
        mostly_small = 2 * self.beginnings < self.sentences
        capitals = "none" if not self.capitalised else "names" if mostly_small else "sentences"
        names = self.capitalised if capitals == "names" else set()
        # `park.` is not a word but a mistake of tokenisation, since `park` occurs at least as often.
        marked = {word for word in self.counts if not word.isalnum()}
        marked -= {word for word in marked if not word[-1].isalnum() and self.counts[word] <= self.counts[word[:-1]]}
        return TextStyle(example, self.tokenized, self.escaped, capitals, frozenset(names), frozenset(marked))


def has_separate_punctuation(line: str) -> bool:
    """Returns whether spaces separate a full stop or a comma from the words of a line."""
    return any(word in (".", ",") for word in line.split(" "))


def find_difference(line: str, style: TextStyle) -> str | None:
    """Returns a message if the style of a line differs from the style of a text; None otherwise.

    Args:
        line: the line.
        style: the style of the text.
    """
    words = words_of(line)
    first = WORD.search(line)
    if style.tokenized and any(
        word[-1] in _PUNCTUATION and word[:-1].isalpha() for word in words if word not in style.marked
    ):
        return "marks are attached to words"
    # Without `tokenized` in the config, punctuation may still be separated from words in the training text.
    if not style.tokenized and has_separate_punctuation(line) and not has_separate_punctuation(style.example):
        return "marks are separated from words by spaces"
    if style.capitals == "none" and line != line.lower():
        return "it has capital letters"
    if first is None:
        return None
    if style.capitals == "names" and first[0][0].isupper() and first[0] not in style.capitalised:
        return "it begins with a capital letter"
    if style.capitals == "sentences" and first[0][0].islower():
        return "it begins without a capital letter"
    return None

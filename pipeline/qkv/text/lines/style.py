"""The style of a text: its words and capitals, so that typed text can be given the same style.

Both sides of a run's text are measured when it is prepared, into `source_look.json` and `target_look.json`.
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
_MARKS = ".,!?;:"


@dataclass(frozen=True)
class TextStyle:
    """The style of a text.

    Args:
        example: one of its sentences.
        tokenized: whether spaces separate marks from words.
        escaped: whether characters are written like `&apos;`.
        capitals: `none`; `names`: words have them, but most sentences begin without; or `sentences`.
        capitalised: words that occur with a capital; empty unless `capitals` is `names`.
        marked: words that have other characters than letters and digits, marks among them; empty unless `tokenized`.
    """

    example: str
    tokenized: bool
    escaped: bool
    capitals: str
    capitalised: frozenset[str]
    marked: frozenset[str]

    def write(self, path: Path) -> None:
        """Writes it as JSON."""
        write_json(path, asdict(self) | {"capitalised": sorted(self.capitalised), "marked": sorted(self.marked)})

    @classmethod
    def read(cls, path: Path) -> "TextStyle | None":
        """Reads what `write` wrote; None if it is missing or damaged, as in an imported run."""
        try:
            values = read_json_object(path)
            return cls(**values | {key: frozenset(values[key]) for key in ("capitalised", "marked")})
        except (OSError, ValueError, KeyError, TypeError):
            return None


@dataclass
class StyleMeter:
    """Measures what a text looks like, part by part; `tokenized` texts have spaces between words and marks. Invisible
    characters are counted by their codes, such as U+00AD."""

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
        """Reads the next lines."""
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
        """Adds what was measured of the next part of the text."""
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
        """The style of the text so far."""
        example = self.first if len(self.first) <= _EXAMPLE_CHARACTERS else self.first_short or self.first
        mostly_small = 2 * self.beginnings < self.sentences
        capitals = "none" if not self.capitalised else "names" if mostly_small else "sentences"
        names = self.capitalised if capitals == "names" else set()
        # A mark that is attached by mistake, as in `park.`, makes no word: `park` is there more often.
        marked = {word for word in self.counts if not word.isalnum()}
        marked -= {word for word in marked if not word[-1].isalnum() and self.counts[word] <= self.counts[word[:-1]]}
        return TextStyle(example, self.tokenized, self.escaped, capitals, frozenset(names), frozenset(marked))


def has_separate_marks(line: str) -> bool:
    """Returns whether spaces separate a full stop or a comma from the words of a line."""
    return any(word in (".", ",") for word in line.split(" "))


def find_difference(line: str, style: TextStyle) -> str | None:
    """Returns in words why a line does not look like a text, or None."""
    words = words_of(line)
    first = WORD.search(line)
    if style.tokenized and any(
        word[-1] in _MARKS and word[:-1].isalpha() for word in words if word not in style.marked
    ):
        return "marks are attached to words"
    # Where the config leaves `tokenized` out, words and marks may be separated in the training text all the same.
    if not style.tokenized and has_separate_marks(line) and not has_separate_marks(style.example):
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

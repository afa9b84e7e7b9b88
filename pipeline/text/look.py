"""What a text looks like: which words and capitals it has, so that typed text can be made to look the same.

The look of a run's source text is measured when the text is prepared, and kept in the run's `source_look.json`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..files import write_json
from ..json_file import read_json_object

WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#\d+);")
_EXAMPLE_CHARACTERS = 60


@dataclass(frozen=True)
class TextLook:
    """What a text looks like.

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
        words = {"capitalised": sorted(self.capitalised), "marked": sorted(self.marked)}
        write_json(path, asdict(self) | words)

    @classmethod
    def read(cls, path: Path) -> "TextLook | None":
        """Reads what `write` wrote; None if it is missing, as in runs of versions without it, or damaged."""
        try:
            values = read_json_object(path)
            words = {key: frozenset(map(str, values[key])) for key in ("capitalised", "marked")}
            look = cls(**(values | words))
            are_right = isinstance(look.example, str) and look.capitals in ("none", "names", "sentences")
            return look if are_right and {type(look.tokenized), type(look.escaped)} == {bool} else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def measure_look(lines: Iterable[str], tokenized: bool) -> TextLook:
    """Reads a text once and returns what it looks like."""
    capitalised: set[str] = set()
    counts: Counter[str] = Counter()
    sentences = beginnings = 0
    example, escaped = "", False
    for line in lines:
        words = WORD.findall(line)
        if not words:
            continue
        sentences += 1
        beginnings += words[0][0].isupper()
        capitalised.update(word for word in words if word[0].isupper())
        escaped = escaped or bool(_ESCAPED.search(line))
        if tokenized:
            counts.update(word for word in line.split(" ") if word)
        if not example or len(example) > _EXAMPLE_CHARACTERS > len(line):
            example = line
    capitals = "none" if not capitalised else "names" if 2 * beginnings < sentences else "sentences"
    names = capitalised if capitals == "names" else set()
    # A mark that is attached by mistake, as in `park.`, makes no word: `park` is there more often.
    marked = {word for word in counts if not word.isalnum()}
    marked -= {word for word in marked if not word[-1].isalnum() and counts[word] <= counts[word[:-1]]}
    return TextLook(example, tokenized, escaped, capitals, frozenset(names), frozenset(marked))

"""Files of sentence pairs, read so that line i of one side stays with line i of the other.

A new format is a function that returns a `Corpus`, a row in `FORMATS`, and the keys that it takes in `CorpusSettings`.
"""

import inspect
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config.corpus import CorpusSettings
from ..errors import InputError
from .lines import Lines, read_lines
from .table import Table, suggest


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in the order of the file: `source[i]` and `target[i]` translate each other."""

    source: Sequence[str]
    target: Sequence[str]
    line_numbers: Sequence[int]
    """The line of the file that each pair came from, from 1. It is not the index if a split was selected."""
    name: str
    """The path or paths of the files, for messages."""

    def __len__(self) -> int:
        return len(self.source)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields each source with its target."""
        return zip(self.source, self.target, strict=True)

    def in_memory(self) -> "Corpus":
        """Returns a copy with its text in memory, for short sets that are read again and again."""
        return replace(self, source=list(self.source), target=list(self.target))

    def select(self, rows: np.ndarray) -> "Corpus":
        """Returns the pairs of these rows, which must ascend."""
        source, target = (
            side.select(rows) if isinstance(side, Lines) else [side[row] for row in rows]
            for side in (self.source, self.target)
        )
        return Corpus(source, target, array("q", (self.line_numbers[row] for row in rows)), self.name)

    def place(self, index: int) -> str:
        """Returns `file:line` of a pair."""
        return f"{self.name}:{self.line_numbers[index]}"


def read_parallel_files(
    source: str | Path, target: str | Path, *, split_file: str | Path | None = None, split: str | None = None
) -> Corpus:
    """Reads two files; line i of one translates line i of the other. Empty lines count.

    Args:
        source: the file of the sources: UTF-8, gzipped or not.
        target: the file of the targets, in the same form.
        split_file: a file with the split of each line, such as `train`.
        split: the split to read; by default all lines.

    Raises:
        InputError: as `read_lines`; the files have different numbers of lines; no lines of that split.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise InputError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}; expected as many in both, because "
            "line i of one translates line i of the other; look for lines, perhaps empty ones, that one side lost, "
            f"and restore them; `paste -d '\\n' {source} {target} | less` shows where they stop matching"
        )
    name = f"{source} + {target}"
    if split is None or split_file is None:
        return Corpus(sources, targets, range(1, len(sources) + 1), name)
    rows = _find_split(read_lines(split_file), split, len(sources), name, split_file)
    return Corpus(sources.select(rows), targets.select(rows), (rows + 1).tolist(), name)


def read_table(
    table: str | Path,
    source_column: str | int,
    target_column: str | int,
    *,
    separator: str = "\t",
    header: bool = False,
    quoted: bool = False,
    split_column: str | int | None = None,
    split_file: str | Path | None = None,
    split: str | None = None,
) -> Corpus:
    """Reads a table with one sentence pair in each row. `NA` and `null` are ordinary text.

    Args:
        table: UTF-8, gzipped or not.
        source_column: name (needs `header`) or number, from 0.
        target_column: likewise.
        separator: one ASCII character.
        header: whether the first line names the columns.
        quoted: whether columns may stand in double quotes; otherwise quotes are ordinary text.
        split_column: the column with the split of each row, such as `train`.
        split_file: a file with the splits instead, one line for each row, the header not counted.
        split: the split to read; by default all rows.

    Raises:
        InputError: as `Table`; an unknown column or split; a split file of another length.
    """
    content = Table(table, separator, header=header, quoted=quoted)
    source, target = content.select_column(source_column), content.select_column(target_column)
    first = content.first + 1
    if split is None:
        return Corpus(source, target, range(first, first + len(content.rows)), str(table))
    if split_file is not None and split_column is None:
        labels, labels_file = read_lines(split_file), split_file
    elif split_column is not None and split_file is None:
        labels, labels_file = content.select_column(split_column), table
    else:
        raise InputError(f"{table}: for split {split!r}, name either a split column or a split file")
    numbers = _find_split(labels, split, len(content.rows), table, labels_file)
    return Corpus(source.select(numbers), target.select(numbers), (numbers + first).tolist(), str(table))


FORMATS: dict[str, Callable[..., Corpus]] = {"source": read_parallel_files, "table": read_table}
"""The key of the config's corpus section that holds a format's file -> the function that reads the format. The
function's parameters have the names of the keys that it takes."""


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Reads the sentence pairs that a section of the config names, in the format whose key is given."""
    read = next(read for key, read in FORMATS.items() if getattr(settings, key) is not None)
    return read(**{name: getattr(settings, name) for name in inspect.signature(read).parameters})


def _find_split(labels: Sequence[str], split: str, rows: int, path: str | Path, labels_file: str | Path) -> np.ndarray:
    if len(labels) != rows:
        raise InputError(
            f"{labels_file}: {len(labels):,} labels for the {rows:,} rows of {path}; expected one line for each row, "
            "the header line not counted; use the split file that was made for this table"
        )
    numbers = np.flatnonzero(np.fromiter((label == split for label in labels), bool, len(labels)))
    if not len(numbers):
        counts = Counter(labels)
        known = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(10))
        raise InputError(f"{labels_file}: no lines of split {split!r}; there are {known}{suggest(split, counts)}")
    return numbers

"""Files of sentence pairs, read so that line i of one side stays with line i of the other."""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import InputError
from .lines import Lines, read_lines


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in file order; line i of one side belongs to line i of the other."""

    source: Sequence[str]
    target: Sequence[str]
    line_numbers: Sequence[int]
    """1-based line of the file that each pair came from; not the index where a split was selected."""
    name: str
    """The path or paths, for messages."""

    def __len__(self) -> int:
        return len(self.source)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each source with its target."""
        return zip(self.source, self.target, strict=True)

    def in_memory(self) -> "Corpus":
        """The same with its text read: for sets that are short and read again and again."""
        return replace(self, source=list(self.source), target=list(self.target))

    def place(self, index: int) -> str:
        """`file:line` of a pair."""
        return f"{self.name}:{self.line_numbers[index]}"


def read_parallel_files(
    source: str | Path, target: str | Path, *, split_file: str | Path | None = None, split: str | None = None
) -> Corpus:
    """Reads two files of which line i of one translates line i of the other; empty lines count.

    Args:
        source: UTF-8, gzipped or not.
        target: likewise.
        split_file: names the split of each line, such as `train`.
        split: takes only the lines with this label; by default all.

    Raises:
        InputError: as `read_lines`; the files have different numbers of lines; no lines of that split.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise InputError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}; expected as many in both, because "
            "line i of one translates line i of the other. Look for lines, perhaps empty ones, that one side lost, "
            f"and restore them; `paste -d '\\n' {source} {target} | less` shows where they part."
        )
    name = f"{source} + {target}"
    if split is None or split_file is None:
        return Corpus(sources, targets, range(1, len(sources) + 1), name)
    kept = _rows_of_split(read_lines(split_file), split, len(sources), name, split_file)
    return Corpus(sources.select(kept), targets.select(kept), (kept + 1).tolist(), name)


def read_table(
    path: str | Path,
    source_column: str | int,
    target_column: str | int,
    *,
    separator: str = "\t",
    header: bool = False,
    split_column: str | int | None = None,
    split_file: str | Path | None = None,
    split: str | None = None,
) -> Corpus:
    """Reads a table with one pair a row. Quotes, `NA` and `null` are text like any other.

    Args:
        path: UTF-8, gzipped or not.
        source_column: name (needs `header`) or number, from 0.
        target_column: likewise.
        separator: one ASCII character.
        header: the first line names the columns.
        split_column: holds each row's split, such as `train`.
        split_file: holds them instead, one line for each row without the header.
        split: takes only the rows with this label; by default all.

    Raises:
        InputError: as `read_lines`; rows of unequal width; an unknown column or split; a split file of another length.
    """
    if len(separator) != 1 or not separator.isascii() or separator in "\r\n":
        raise InputError(f"{path}: separator {separator!r}; expected one ASCII character, such as a tab or a comma.")
    lines = read_lines(path)
    width = _equal_width(lines, separator, path)
    names = lines[0].split(separator) if header else None
    first = 1 if header else 0
    rows = lines.select(np.arange(first, len(lines)))
    if not len(rows):
        raise InputError(f"{path}: only a header line; expected rows below it.")

    def column(wanted: str | int) -> Lines:
        return rows.of_column(separator, _column_number(wanted, names, width, path))

    source, target = column(source_column), column(target_column)
    if split is None:
        return Corpus(source, target, range(first + 1, len(lines) + 1), str(path))
    if split_file is not None and split_column is None:
        labels, where = read_lines(split_file), split_file
    elif split_column is not None and split_file is None:
        labels, where = column(split_column), path
    else:
        raise InputError(f"{path}: for split {split!r}, name either a split column or a split file, one of the two.")
    kept = _rows_of_split(labels, split, len(rows), path, where)
    return Corpus(source.select(kept), target.select(kept), (kept + first + 1).tolist(), str(path))


def _equal_width(lines: Iterable[str], separator: str, path: str | Path) -> int:
    width = 0
    for number, line in enumerate(lines, 1):
        width = width or line.count(separator) + 1
        if line.count(separator) + 1 != width:
            raise InputError(
                f"{path}:{number}: {line.count(separator) + 1} columns; expected {width}, as in line 1. Columns are "
                f"divided by {separator!r}, also inside quotes: mend the row, or name the right separator."
            )
    return width


def _column_number(wanted: str | int, names: list[str] | None, width: int, path: str | Path) -> int:
    if isinstance(wanted, int):
        if 0 <= wanted < width:
            return wanted
        raise InputError(f"{path}: no column {wanted}; the {width} columns are numbered from 0 to {width - 1}.")
    if names is None:
        raise InputError(
            f"{path}: column {wanted!r} is a name, but the table is read as one without a header line. "
            f"Say that it has one, or give a number from 0 to {width - 1}."
        )
    if names.count(wanted) == 1:
        return names.index(wanted)
    if wanted in names:
        raise InputError(f"{path}:1: {names.count(wanted)} columns are named {wanted!r}; choose by number, from 0.")
    raise InputError(f"{path}:1: no column {wanted!r}; there are {', '.join(names)}.{_suggestion(wanted, names)}")


def _rows_of_split(labels: Sequence[str], split: str, rows: int, path: str | Path, where: str | Path) -> np.ndarray:
    if len(labels) != rows:
        raise InputError(
            f"{where}: {len(labels):,} labels for the {rows:,} rows of {path}; expected one line for each row, "
            "the header line not counted. Take the split file that was made for this table."
        )
    kept = np.flatnonzero(np.fromiter((label == split for label in labels), bool, len(labels)))
    if not len(kept):
        counts = Counter(labels)
        known = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(10))
        raise InputError(f"{where}: no lines of split {split!r}; there are {known}.{_suggestion(split, counts)}")
    return kept


def _suggestion(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""

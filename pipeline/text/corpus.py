"""Files of sentence pairs, read so that line i of one side stays with line i of the other."""

import codecs
import csv
import difflib
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.errors import InputError


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in file order; line i of one side belongs to line i of the other."""

    source: list[str]
    target: list[str]
    line_numbers: list[int]
    """1-based line of the file that each pair came from; not the index where a split was selected."""
    name: str
    """The path or paths, for messages."""

    def __len__(self) -> int:
        return len(self.source)

    def place(self, index: int) -> str:
        """`file:line` of a pair."""
        return f"{self.name}:{self.line_numbers[index]}"


def read_lines(path: str | Path) -> list[str]:
    r"""Reads a UTF-8 text file, gzipped or not, with or without a byte order mark.

    Only `\n` and `\r\n` end a line: characters such as U+2028 or U+0085 occur inside sentences, and splitting there
    would shift every pair that follows. The last line may lack its end.

    Raises:
        InputError: no such file, a directory, an empty file, a damaged gzip file, or bytes that are not UTF-8.
    """
    data = _read_bytes(Path(path)).removeprefix(codecs.BOM_UTF8)
    if not data:
        raise InputError(f"{path}: the file is empty; expected UTF-8 text with one sentence or row a line.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        encoding = "UTF-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "LATIN1"
        raise InputError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} (byte {error.start + 1} of the text) is not UTF-8, as "
            f"expected; perhaps it is {encoding}. Convert the file: iconv -f {encoding} -t UTF-8 FILE > CONVERTED"
        ) from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file. Check the path, which starts at {Path.cwd()}.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a directory; expected a text file, gzipped or not.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error}). Fetch or compress it again.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None


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
    kept: Sequence[int] = range(len(sources))
    if split is not None and split_file is not None:
        kept = _rows_of_split(read_lines(split_file), split, len(sources), name, split_file)
    return Corpus([sources[i] for i in kept], [targets[i] for i in kept], [i + 1 for i in kept], name)


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
    rows = lines[1:] if header else lines
    if not rows:
        raise InputError(f"{path}: only a header line; expected rows below it.")
    table = _parse(rows, separator, width)

    def column(wanted: str | int) -> list[str]:
        return table[str(_column_number(wanted, names, width, path))].tolist()

    numbers = np.arange(len(rows)) + (2 if header else 1)
    source, target = column(source_column), column(target_column)
    if split is None:
        return Corpus(source, target, numbers.tolist(), str(path))
    if split_file is not None and split_column is None:
        labels, where = read_lines(split_file), split_file
    elif split_column is not None and split_file is None:
        labels, where = column(split_column), path
    else:
        raise InputError(f"{path}: for split {split!r}, name either a split column or a split file, one of the two.")
    kept = _rows_of_split(labels, split, len(rows), path, where)
    return Corpus([source[i] for i in kept], [target[i] for i in kept], numbers[kept].tolist(), str(path))


def _equal_width(lines: Sequence[str], separator: str, path: str | Path) -> int:
    width = lines[0].count(separator) + 1
    for number, line in enumerate(lines, 1):
        if line.count(separator) + 1 != width:
            raise InputError(
                f"{path}:{number}: {line.count(separator) + 1} columns; expected {width}, as in line 1. Columns are "
                f"divided by {separator!r}, also inside quotes: mend the row, or name the right separator."
            )
    return width


def _parse(rows: Sequence[str], separator: str, width: int) -> pd.DataFrame:
    # The header line is ours, so that nothing in the first row is taken for one, nor for a byte order mark.
    text = "\n".join([separator.join(map(str, range(width))), *rows, ""])
    return pd.read_csv(
        io.StringIO(text),
        sep=separator,
        lineterminator="\n",
        quoting=csv.QUOTE_NONE,
        keep_default_na=False,
        na_filter=False,
        dtype=str,
        index_col=False,
        skip_blank_lines=False,
        engine="c",
    )


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


def _rows_of_split(labels: list[str], split: str, rows: int, path: str | Path, where: str | Path) -> Sequence[int]:
    if len(labels) != rows:
        raise InputError(
            f"{where}: {len(labels):,} labels for the {rows:,} rows of {path}; expected one line for each row, "
            "the header line not counted. Take the split file that was made for this table."
        )
    kept = [index for index, label in enumerate(labels) if label == split]
    if not kept:
        counts = Counter(labels)
        known = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(10))
        raise InputError(f"{where}: no lines of split {split!r}; there are {known}.{_suggestion(split, counts)}")
    return kept


def _suggestion(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""

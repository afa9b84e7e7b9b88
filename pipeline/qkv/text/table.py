"""Tables of text: the rows of a TSV, CSV or Parquet file, and their columns by name or number."""

import csv
import difflib
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from .arrow_files import ParquetTable
from .lines import Lines, lines_of, read_lines

_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a cell as spreadsheets quote it

log = logging.getLogger(__name__)


class Table:
    """The rows of a table, one in each line of its file.

    Args:
        path: UTF-8, gzipped or not.
        separator: one ASCII character.
        header: whether the first line names the columns.
        quoted: whether columns may stand in double quotes, as in a CSV file of a spreadsheet. Otherwise quotes are
            ordinary text.

    Raises:
        InputError: as `read_lines`; rows of unequal width, or none; a quoted column that does not end in its line.
    """

    def __init__(self, path: str | Path, separator: str, *, header: bool = False, quoted: bool = False) -> None:
        if len(separator) != 1 or not separator.isascii() or separator in "\r\n":
            raise InputError(f"{path}: separator {separator!r}; expected one ASCII character, such as a tab or a comma")
        self._path, self._separator, self._quoted = path, separator, quoted
        self._split = _split_quoted(separator) if quoted else lambda line: line.split(separator)
        lines = read_lines(path)
        self._width = self._check_width(lines)
        self._first_line = lines[0]
        self._names = self._split(lines[0]) if header else None
        self.first = 1 if header else 0
        self.rows = lines.select(np.arange(self.first, len(lines)))
        if not len(self.rows):
            raise InputError(f"{path}: only a header line; expected rows below it")

    def select_column(self, column: str | int) -> Lines:
        """Returns the text of a column, named or numbered from 0.

        Raises:
            InputError: there is no such column, or there are several.
        """
        number, split = self._find_column(column), self._split
        return self.rows.cut(lambda line: split(line)[number])

    def _check_width(self, lines: Iterable[str]) -> int:
        width = quoted = ordinary = doubled = 0
        for number, line in enumerate(lines, 1):
            try:
                found = len(self._split(line)) if self._quoted else line.count(self._separator) + 1
            except csv.Error as error:
                raise InputError(
                    f"{self._path}:{number}: {error}; expected one row in each line, a column in double quotes with "
                    'every quote inside it doubled (""): mend the row, or end the name in .tsv if quotes are text'
                ) from None
            width = width or found
            if found != width:
                raise InputError(
                    f"{self._path}:{number}: {found} columns; expected {width}, as in line 1; columns are divided by "
                    f"{self._separator!r}{self._hint(line)}: mend the row, or name the right separator"
                )
            if '"' in line and not self._quoted:
                cells = [cell for cell in self._split(line) if '"' in cell]
                quoted += 1
                ordinary += not all(map(_QUOTED.fullmatch, cells))
                doubled += any('""' in cell[1:-1] for cell in cells)
        if not ordinary and (quoted > number / 2 or doubled):
            log.warning(
                "%s: %d of %d rows have a column in double quotes, which are read as text; if a spreadsheet wrote "
                "them, end the file's name in .csv",
                self._path,
                quoted,
                number,
            )
        return width

    def _hint(self, line: str) -> str:
        if self._quoted or '"' not in line:
            return ""
        return ", also inside quotes (to read quotes as spreadsheets write them, end the file's name in .csv)"

    def _find_column(self, wanted: str | int) -> int:
        path, width, names = self._path, self._width, self._names
        if isinstance(wanted, int):
            if 0 <= wanted < width:
                return wanted
            if width == 1:
                raise InputError(f"{path}: no column {wanted}: {self._describe_other_separators()}")
            raise InputError(f"{path}: no column {wanted}; the {width} columns are numbered from 0 to {width - 1}")
        if names is None:
            raise InputError(
                f"{path}: column {wanted!r} is a name, but the table is read as one without a header line; "
                f"set header: true, or give a number from 0 to {width - 1}"
            )
        if names.count(wanted) == 1:
            return names.index(wanted)
        if wanted in names:
            raise InputError(f"{path}:1: {names.count(wanted)} columns are named {wanted!r}; choose by number, from 0")
        raise InputError(f"{path}:1: no column {wanted!r}; there are {', '.join(names)}{suggest(wanted, names)}")

    def _describe_other_separators(self) -> str:
        others = [repr(other) for other in "\t,;|" if other != self._separator and other in self._first_line]
        return (
            f"no line has the separator {self._separator!r}"
            + f"; line 1 has {' and '.join(others)}" * bool(others)
            + "; name the character that divides the columns, such as separator: ','"
        )


class ParquetColumns:
    """The columns of a Parquet file, as those of a `Table`."""

    first = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ParquetTable(path)

    def select_column(self, column: str | int) -> Lines:
        """Returns the text of a column, named or numbered from 0.

        Raises:
            InputError: as `ParquetTable`, or there are no rows.
        """
        lines = lines_of(self._file.read_column(self._file.find_column(column)))
        if not len(lines):
            raise InputError(f"{self._path}: no rows; expected one for each pair")
        return lines


def suggest(wanted: str, known: Iterable[str]) -> str:
    """Returns a hint at the nearest of the known names, or nothing if none is near."""
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _split_quoted(separator: str) -> Callable[[str], Sequence[str]]:
    return lambda line: next(csv.reader([line], delimiter=separator, strict=True), None) or [""]

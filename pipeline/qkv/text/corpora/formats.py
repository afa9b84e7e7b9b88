"""Corpora on disk: two files or a table, read so that line i of one side stays with line i of the other."""

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...config.corpus import PARQUET, CorpusSettings, ListedCorpusSettings, is_csv
from ...errors import InputError, did_you_mean, first_line
from ..lines.line import compose, tagged_lines
from ..lines.text_file import Lines, import_pyarrow, lines_of, read_lines, refuse_growth
from .corpus import Corpus, join_corpora

Section = TypeVar("Section", bound=CorpusSettings)
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 24  # how many rows are unpacked at a time, and about how many bytes at most
_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a cell as spreadsheets quote it
log = logging.getLogger(__name__)


def read_corpus(settings: CorpusSettings | Sequence[CorpusSettings]) -> Corpus:
    """Reads the pairs of a section of the config, from two files or a table; of a list, of one after the other."""
    if not isinstance(settings, CorpusSettings):
        return join_corpora([read_corpus(corpus) for corpus in settings])
    shards = []
    for files in settings.shards():
        given: dict[str, Any] = {key: path for key, path in files.items() if key != "alignments"}
        given["split"] = settings.split
        if settings.table is None:
            shards.append(read_parallel_files(**given))
        else:
            given |= settings.model_dump(include={"source_column", "target_column", "separator", "header"})
            shards.append(read_corpus_table(**given))
    return join_corpora(shards, "shards")


def read_tagged(settings: CorpusSettings | Sequence[ListedCorpusSettings]) -> Corpus:
    """Reads pairs into memory, as `read_corpus`; sources of a list have the tags of their corpora before them."""
    corpus = read_corpus(settings).in_memory()
    if isinstance(settings, CorpusSettings):
        return corpus
    return replace(corpus, source=tagged_lines(corpus.source, tags_of(corpus, settings)))


def tags_of(files: Corpus, corpora: Sequence[ListedCorpusSettings]) -> list[str | None]:
    """Returns the tag of each pair of a list."""
    return [corpus.tag for part, corpus in parts_of(files, corpora) for _ in range(len(part))]


def parts_of(files: Corpus, corpora: Sequence[Section]) -> Iterator[tuple[Corpus, Section]]:
    """Yields the pairs of each section of a list, with the section; a section may have several files itself."""
    return zip(files.parts if len(corpora) > 1 else [files], corpora, strict=True)


def linked_parts_of(files: Corpus, corpora: Sequence[CorpusSettings]) -> Iterator[tuple[Corpus, Path, bool, int]]:
    """Yields the pairs of each section of a list, the file of their links, whether these are turned, and the number of
    the first word."""
    for part, corpus in parts_of(files, corpora):
        assert corpus.alignments is not None  # the config has been checked
        yield part, corpus.alignments, corpus.alignments_turned, corpus.alignments_first_index


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
    corpus = Corpus(sources, targets, range(1, len(sources) + 1), f"{source} + {target}")
    return _select_split(corpus, split_file, split)


def read_corpus_table(
    table: str | Path,
    source_column: str | int,
    target_column: str | int,
    *,
    separator: str | None = None,
    header: bool = False,
    split_file: str | Path | None = None,
    split: str | None = None,
) -> Corpus:
    """Reads a table with one sentence pair in each row. `NA` and `null` are ordinary text.

    Args:
        table: UTF-8, plain, gzip or zstd; or a Parquet file, whose name ends in .parquet.
        source_column: name (needs `header`, unless it is a Parquet file) or number, from 0.
        target_column: likewise.
        separator: one ASCII character; by default a comma in a CSV file, a tab in others.
        header: whether the first line names the columns.
        split_file: a file with the split of each row, such as `train`, one line for each, the header not counted.
        split: the split to read; by default all rows.

    Raises:
        InputError: as `read_text_columns` and `read_parquet_column`; an unknown split; a split file of another length.
    """
    columns = source_column, target_column
    if Path(table).suffix == PARQUET:
        file = open_parquet(Path(table))
        source, target = (lines_of(read_parquet_column(Path(table), file, column)) for column in columns)
    else:
        quoted = is_csv(table)
        separator = separator or ("," if quoted else "\t")
        source, target = read_text_columns(table, columns, separator, header=header, quoted=quoted)
    if not len(source):
        found = "only a header line; expected rows below it" if header else "no rows; expected one for each pair"
        raise InputError(f"{table}: {found}")
    lines = range(header + 1, header + 1 + len(source))
    return _select_split(Corpus(source, target, lines, str(table)), split_file, split)


def _select_split(corpus: Corpus, labels_file: str | Path | None, split: str | None) -> Corpus:
    if labels_file is None or split is None:
        return corpus
    labels = read_lines(labels_file)
    if len(labels) != len(corpus):
        raise InputError(
            f"{labels_file}: {len(labels):,} labels for the {len(corpus):,} rows of {corpus.name}; expected one line "
            "for each row, the header line not counted; use the split file that was made for this table"
        )
    rows = np.flatnonzero(np.fromiter((label == split for label in labels), bool, len(labels)))
    if not len(rows):
        counts = Counter(labels)
        known = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(10))
        hint = did_you_mean(split, list(counts))
        raise InputError(f"{labels_file}: no lines of split {split!r:.60}; there are {known}{hint}")
    return corpus.select(rows)


def read_text_columns(
    path: str | Path, columns: Sequence[str | int], separator: str, *, header: bool = False, quoted: bool = False
) -> list[Lines]:
    """Reads columns of a table with one row in each line of its file.

    Args:
        path: UTF-8, gzipped or not.
        columns: their names, or their numbers from 0.
        separator: one ASCII character.
        header: whether the first line names the columns.
        quoted: whether columns may be in double quotes, as in a CSV file; otherwise quotes are ordinary text.

    Raises:
        InputError: as `read_lines`; rows of unequal width; a quoted column that does not end in its line; there is no
            such column, or there are several.
    """
    if len(separator) != 1 or not separator.isascii() or separator in "\r\n":
        raise InputError(f"{path}: separator {separator!r}; expected one ASCII character, such as a tab or a comma")
    split = partial(_split, separator=separator, quoted=quoted)
    lines = replace(read_lines(path), form=str)  # rows are divided as written: composed, a Greek question mark is a ;
    width = _check_width(path, lines, separator, quoted)
    names = list(map(compose, split(lines[0]))) if header else [str(number) for number in range(width)]
    rows = lines.select(np.arange(header, len(lines)))

    def select(column: str | int) -> Lines:
        if width == 1 and isinstance(column, int) and column:
            others = [repr(other) for other in "\t,;|" if other != separator and other in lines[0]]
            found = f"; line 1 has {' and '.join(others)}" if others else ""
            raise InputError(
                f"{path}: no column {column}: no line has the separator {separator!r}{found}; name the character that "
                "divides the columns, such as separator: ','"
            )
        number = _find_column(f"{path}:1", names, column)
        return replace(rows, form=lambda line: compose(split(line)[number]))

    return list(map(select, columns))


def _check_width(path: str | Path, lines: Iterable[str], separator: str, quoted: bool) -> int:
    """Returns the number of columns of all rows."""
    width = with_quotes = ordinary = doubled = 0
    for number, line in enumerate(lines, 1):
        try:
            found = len(_split(line, separator, quoted)) if quoted else line.count(separator) + 1
        except csv.Error as error:
            raise InputError(
                f"{path}:{number}: {error}; expected one row in each line, a column in double quotes with "
                'every quote inside it doubled (""): mend the row, or end the name in .tsv if quotes are text'
            ) from None
        width = width or found
        if found != width:
            inside = '"' in line and not quoted
            hint = ", also inside quotes (as in spreadsheets: end the file's name in .csv)" if inside else ""
            raise InputError(
                f"{path}:{number}: {found} columns; expected {width}, as in line 1; columns are divided by "
                f"{separator!r}{hint}: mend the row, or name the right separator"
            )
        if '"' in line and not quoted:
            cells = [cell for cell in line.split(separator) if '"' in cell]
            with_quotes += 1
            ordinary += not all(map(_QUOTED.fullmatch, cells))
            doubled += any('""' in cell[1:-1] for cell in cells)
    if not ordinary and (with_quotes > number / 2 or doubled):
        log.warning(
            "%s: %d of %d rows have a column in double quotes, which are read as text; if a spreadsheet wrote "
            "them, end the file's name in .csv",
            path,
            with_quotes,
            number,
        )
    return width


def _find_column(place: str | Path, names: Sequence[str], wanted: str | int) -> int:
    """Returns the number of the one column that has a name or a number, from 0; `place` names the table."""
    last = len(names) - 1
    if isinstance(wanted, int):
        if 0 <= wanted <= last:
            return wanted
        raise InputError(f"{place}: no column {wanted}; the {len(names)} columns are numbered from 0 to {last}")
    if wanted not in names:
        raise InputError(
            f"{place}: no column {wanted!r:.60}; there are {', '.join(names)}{did_you_mean(wanted, names)}"
        )
    if names.count(wanted) > 1:
        raise InputError(f"{place}: {names.count(wanted)} columns are named {wanted!r:.60}; rename all but one")
    return names.index(wanted)


def _split(line: str, separator: str, quoted: bool) -> Sequence[str]:
    if not quoted:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, strict=True), None) or [""]


def open_parquet(path: Path, **options: Any) -> Any:
    """Opens a Parquet file; raises an `InputError` if it is missing, damaged or another file, or PyArrow is missing."""
    pyarrow = import_pyarrow(path, "a Parquet file")
    try:
        return import_module("pyarrow.parquet").ParquetFile(path, **options)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a Parquet file, or a damaged one ({first_line(error)})") from None


def read_parquet_column(path: Path, file: Any, column: str | int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields the rows of a column of text, some thousand at a time: their bytes in UTF-8, and how many bytes each has.
    Line ends within a row become spaces, and what is null is empty.

    Args:
        path: of the file.
        file: of `open_parquet`.
        column: its name, or its number from 0.

    Raises:
        InputError: there is no such column, or there are several; the column has no text, the file is damaged, or it
            unpacks to far more than text does.
    """
    schema = file.metadata.schema
    columns = [schema.column(place) for place in range(len(schema))]
    names = [one.path for one in columns]
    place = _find_column(path, names, names[_find_column(path, names, column)])  # the only one of its name
    kind = columns[place]
    if kind.logical_type.type != "STRING" or kind.max_repetition_level:
        found = "lists" if kind.max_repetition_level else kind.physical_type.lower()
        raise InputError(f"{path}: column {kind.path!r} holds {found}; expected text")
    pyarrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    size, unpacked = path.stat().st_size, 0
    try:
        for batch in _parquet_batches(path, file, place):
            text = compute.fill_null(batch.cast(pyarrow.large_string()), "")
            text = compute.replace_substring_regex(text, r"\r?\n|\r", " ")
            text.validate(full=True)
            _, offsets, data = text.buffers()
            ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
            unpacked += len(text) + int(ends[-1] - ends[0])
            refuse_growth(path, size, unpacked)
            yield (data.to_pybytes() if data else b"")[ends[0] : ends[-1]], np.diff(ends)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: damaged Parquet file ({first_line(error)}); fetch it again") from None


def _parquet_batches(path: Path, file: Any, place: int) -> Iterator[Any]:
    """Yields a column, so few rows at a time that they are about `BATCH_BYTES`."""
    found = file.metadata
    dictionaries = open_parquet(path, metadata=found, read_dictionary=[found.schema.column(place).path])
    for group in range(found.num_row_groups):
        # By its place, since pyarrow takes `en` for `en.1` too.
        chunk = found.row_group(group).column(place)
        only = {"row_groups": [group], "column_indices": [place]}
        refuse_growth(path, path.stat().st_size, chunk.total_uncompressed_size)
        longest = chunk.total_uncompressed_size // max(1, found.row_group(group).num_rows)
        if chunk.has_dictionary_page:  # a long text that the file holds once may stand in every row
            if (first := next(dictionaries.reader.iter_batches(1, **only), None)) is None:
                continue
            lengths = import_module("pyarrow.compute").binary_length(_only_column(first).dictionary)
            longest = max(longest, *lengths.to_pylist(), 0)
        rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, longest)))
        yield from map(_only_column, file.reader.iter_batches(rows, **only))


def _only_column(batch: Any) -> Any:
    """Returns the column of a batch with one, which may be within others."""
    column = batch.column(0)
    while type(column.type).__name__ == "StructType":
        column = column.field(0)
    return column

"""Readers of corpora: two text files, line by line translations of each other, or a table with a pair in each row."""

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

from ...config.corpus import PARQUET_SUFFIX, CorpusSettings, ListedCorpusSettings, is_csv
from ...errors import InputError, did_you_mean, first_line
from ..lines.line import compose, tagged_lines
from ..lines.text_file import Lines, import_pyarrow, lines_of, read_lines, refuse_growth
from .corpus import Corpus, join_corpora

Section = TypeVar("Section", bound=CorpusSettings)
BATCH_ROWS = 65_536  # the maximum number of rows of a Parquet file that are unpacked at a time
BATCH_BYTES = 1 << 24  # the approximate maximum of bytes that they unpack to
_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a cell as spreadsheets quote it
log = logging.getLogger(__name__)


def read_corpus(settings: CorpusSettings | Sequence[CorpusSettings]) -> Corpus:
    """Reads the corpus of a section of the config from two text files or a table.

    If the section is a list of corpora, or a path is a pattern of several files, all of them are read and joined.

    Raises:
        InputError: see `read_parallel_files` and `read_corpus_table`; or no file matches a pattern.
    """
    if not isinstance(settings, CorpusSettings):
        return join_corpora([read_corpus(corpus) for corpus in settings])
    corpora = []
    for files in settings.file_sets():
        arguments: dict[str, Any] = {key: path for key, path in files.items() if key != "alignments"}
        arguments["split"] = settings.split
        if settings.table is None:
            corpora.append(read_parallel_files(**arguments))
        else:
            arguments |= settings.model_dump(include={"source_column", "target_column", "separator", "header"})
            corpora.append(read_corpus_table(**arguments))
    return join_corpora(corpora, "shards")


def read_tagged(settings: CorpusSettings | Sequence[ListedCorpusSettings]) -> Corpus:
    """Reads pairs into memory as `read_corpus` does. In a list, the tag of a corpus is put before its sources.

    Raises:
        InputError: see `read_corpus`.
    """
    corpus = read_corpus(settings).in_memory()
    if isinstance(settings, CorpusSettings):
        return corpus
    return replace(corpus, source=tagged_lines(corpus.source, tags_of(corpus, settings)))


def tags_of(files: Corpus, corpora: Sequence[ListedCorpusSettings]) -> list[str | None]:
    """Returns the tag of each pair in the join of a list of corpora; None for a pair without a tag.

    Args:
        files: the joined corpus.
        corpora: the settings of the corpora of the list.
    """
    return [corpus.tag for part, corpus in parts_of(files, corpora) for _ in range(len(part))]


def parts_of(files: Corpus, corpora: Sequence[Section]) -> Iterator[tuple[Corpus, Section]]:
    """Yields `(pairs, section)` for each section of a list of corpora.

    Args:
        files: the pairs of all sections, joined in the order of `corpora`.
        corpora: the sections of the config. One section may cover several files.
    """
    return zip(files.parts if len(corpora) > 1 else [files], corpora, strict=True)


def linked_parts_of(files: Corpus, corpora: Sequence[CorpusSettings]) -> Iterator[tuple[Corpus, Path, bool, int]]:
    """Yields the first four arguments of `text.corpora.word_links.iterate_links` for each section of a list of corpora.

    They are the pairs, the file of their links, whether the links are turned, and the number of the first word.

    Args:
        files: the join of the corpora.
        corpora: the sections of the config, in the same order. All of them have alignments.
    """
    for part, corpus in parts_of(files, corpora):
        assert corpus.alignments is not None  # the caller has checked it
        yield part, corpus.alignments, corpus.alignments_turned, corpus.alignments_first_index


def read_parallel_files(
    source: str | Path, target: str | Path, *, split_file: str | Path | None = None, split: str | None = None
) -> Corpus:
    """Reads a corpus from two text files. Line i of the target translates line i of the source. Empty lines count.

    Args:
        source: the file of the sources: UTF-8, plain, gzip or zstd.
        target: the file of the targets, in the same form.
        split_file: a file with the split of each line, such as `train`.
        split: the split to read. None reads all lines.

    Raises:
        InputError: the files have different numbers of lines, or no line is of that split; or see
            `text.lines.text_file.read_lines`.
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
    """Reads a corpus from a table with one sentence pair in each row. `NA` and `null` are ordinary text.

    Args:
        table: a text file in UTF-8, plain, gzip or zstd; or a Parquet file, whose name ends in .parquet.
        source_column: the column of the sources: its number, from 0, or its name. A text file has names if `header`.
        target_column: the column of the targets, in the same form.
        separator: the ASCII character between columns. None: a comma in a CSV file, a tab in other files.
        header: whether the first line of a text file has the names of the columns.
        split_file: a file with the split of each row, such as `train`, in one line for each row but the header.
        split: the split to read. None reads all rows.

    Raises:
        InputError: the table has no rows, no row is of that split, or the split file does not have a line for each row;
            or see `read_text_columns` and `read_parquet_column`.
    """
    columns = source_column, target_column
    if Path(table).suffix == PARQUET_SUFFIX:
        file = open_parquet(Path(table))
        source, target = (lines_of(read_parquet_column(Path(table), file, column)) for column in columns)
    else:
        quoted = is_csv(table)
        separator = separator or ("," if quoted else "\t")
        source, target = read_text_columns(table, columns, separator, header=header, quoted=quoted)
    if not len(source):
        mistake = "only a header line; expected rows below it" if header else "no rows; expected one for each pair"
        raise InputError(f"{table}: {mistake}")
    lines = range(header + 1, header + 1 + len(source))
    return _select_split(Corpus(source, target, lines, str(table)), split_file, split)


def _select_split(corpus: Corpus, labels_file: str | Path | None, split: str | None) -> Corpus:
    """Returns the pairs whose label in a file is `split`; all pairs if the file or the split is None.

    Raises:
        InputError: the file does not have a line for each pair, or no line is `split`; or see
            `text.lines.text_file.read_lines`.
    """
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
    """Reads columns of a table in a text file with one row in each line.

    Args:
        path: the file: UTF-8, plain, gzip or zstd.
        columns: the names of the columns, or their numbers from 0.
        separator: the ASCII character between columns.
        header: whether the first line has the names of the columns.
        quoted: whether columns may be in double quotes, as in a CSV file. If False, quotes are ordinary text.

    Returns:
        The text of each column in `columns`, without the header.

    Raises:
        InputError: the separator is not one ASCII character; rows have different numbers of columns; a quoted column
            does not end in its line; or a column does not exist, or its name is not unique. Or see
            `text.lines.text_file.read_lines`.
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
            candidates = [repr(character) for character in "\t,;|" if character != separator and character in lines[0]]
            hint = f"; line 1 has {' and '.join(candidates)}" if candidates else ""
            raise InputError(
                f"{path}: no column {column}: no line has the separator {separator!r}{hint}; name the character that "
                "divides the columns, such as separator: ','"
            )
        number = find_column(f"{path}:1", names, column)
        return replace(rows, form=lambda line: compose(split(line)[number]))

    return list(map(select, columns))


def _check_width(path: str | Path, lines: Iterable[str], separator: str, quoted: bool) -> int:
    """Returns the number of columns, which must be the same in all rows.

    Logs a warning if quotes that are read as text seem to enclose columns.

    Raises:
        InputError: a row has another number of columns than the first one, or a quoted column does not end in its line.
    """
    width = with_quotes = ordinary = doubled = 0
    for number, line in enumerate(lines, 1):
        try:
            width_of_row = len(_split(line, separator, quoted)) if quoted else line.count(separator) + 1
        except csv.Error as error:
            raise InputError(
                f"{path}:{number}: {error}; expected one row in each line, a column in double quotes with "
                'every quote inside it doubled (""): correct the row, or end the name in .tsv if quotes are text'
            ) from None
        width = width or width_of_row
        if width_of_row != width:
            inside = '"' in line and not quoted
            hint = ", also inside quotes (as in spreadsheets: end the file's name in .csv)" if inside else ""
            raise InputError(
                f"{path}:{number}: {width_of_row} columns; expected {width}, as in line 1; columns are divided by "
                f"{separator!r}{hint}: correct the row, or name the right separator"
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


def find_column(location: str | Path, names: Sequence[str], wanted: str | int) -> int:
    """Returns the number of a column, from 0.

    Args:
        location: the table, in a file or in memory, and, if it has one, the line of the names, for messages.
        names: the names of all columns.
        wanted: the name of the column, or its number from 0.

    Raises:
        InputError: there is no such column, or several columns have that name.
    """
    last = len(names) - 1
    if isinstance(wanted, int):
        if 0 <= wanted <= last:
            return wanted
        raise InputError(f"{location}: no column {wanted}; the {len(names)} columns are numbered from 0 to {last}")
    if wanted not in names:
        raise InputError(
            f"{location}: no column {wanted!r:.60}; there are {', '.join(names)}{did_you_mean(wanted, names)}"
        )
    if names.count(wanted) > 1:
        raise InputError(f"{location}: {names.count(wanted)} columns are named {wanted!r:.60}; rename all but one")
    return names.index(wanted)


def _split(line: str, separator: str, quoted: bool) -> Sequence[str]:
    """Returns the columns of a row; a `csv.Error` if a quoted column does not end in the line."""
    if not quoted:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, strict=True), None) or [""]


def open_parquet(path: Path, **options: Any) -> Any:
    """Opens a Parquet file by `pyarrow.parquet.ParquetFile`, with further options of that class.

    Raises:
        InputError: the file is missing, is damaged or is not a Parquet file; or PyArrow is not installed.
    """
    pyarrow = import_pyarrow(path, "a Parquet file")
    try:
        return import_module("pyarrow.parquet").ParquetFile(path, **options)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a Parquet file, or a damaged one ({first_line(error)})") from None


def read_parquet_column(path: Path, file: Any, column: str | int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields the rows of a column of text, some thousand rows at a time.

    Line ends within a row become spaces, and a null value becomes an empty row.

    Args:
        path: the path of the file.
        file: the file, from `open_parquet`.
        column: the name of the column, or its number from 0.

    Yields:
        The bytes of the rows in UTF-8, one row after the other, and the number of bytes of each row, int64 `(rows,)`.

    Raises:
        InputError: the column does not exist, its name is not unique, or it does not hold text; the file is damaged, or
            it unpacks to far more bytes than text does.
    """
    schema = file.metadata.schema
    columns = [schema.column(number) for number in range(len(schema))]
    names = [described.path for described in columns]
    number = find_column(path, names, names[find_column(path, names, column)])  # by its name, which must be unique
    chosen = columns[number]
    if chosen.logical_type.type != "STRING" or chosen.max_repetition_level:
        content = "lists" if chosen.max_repetition_level else chosen.physical_type.lower()
        raise InputError(f"{path}: column {chosen.path!r} holds {content}; expected text")
    pyarrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    size, unpacked = path.stat().st_size, 0
    try:
        for batch in _parquet_batches(path, file, number):
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


def _parquet_batches(path: Path, file: Any, number: int) -> Iterator[Any]:
    """Yields the values of column `number` as arrays of PyArrow, each of about `BATCH_BYTES` bytes or less.

    Raises:
        InputError: the column unpacks to far more bytes than text does.
    """
    metadata = file.metadata
    dictionaries = open_parquet(path, metadata=metadata, read_dictionary=[metadata.schema.column(number).path])
    for group in range(metadata.num_row_groups):
        # The column is chosen by its number: by the name `en`, PyArrow also takes `en.1`.
        chunk = metadata.row_group(group).column(number)
        only = {"row_groups": [group], "column_indices": [number]}
        refuse_growth(path, path.stat().st_size, chunk.total_uncompressed_size)
        longest = chunk.total_uncompressed_size // max(1, metadata.row_group(group).num_rows)
        if chunk.has_dictionary_page:  # a long text that the file stores once may be in every row
            if (first := next(dictionaries.reader.iter_batches(1, **only), None)) is None:
                continue
            lengths = import_module("pyarrow.compute").binary_length(_only_column(first).dictionary)
            longest = max(longest, *lengths.to_pylist(), 0)
        rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, longest)))
        yield from map(_only_column, file.reader.iter_batches(rows, **only))


def _only_column(batch: Any) -> Any:
    """Returns the only column of a batch of PyArrow; it may be nested in columns that are structs."""
    column = batch.column(0)
    while type(column.type).__name__ == "StructType":
        column = column.field(0)
    return column

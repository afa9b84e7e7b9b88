"""Files of sentence pairs, read so that line i of one side stays with line i of the other.

A new format is a function that returns a `Corpus`, a row in `FORMATS`, and the keys that it takes in `CorpusSettings`.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..config.corpus import PARQUET, CorpusSettings, is_csv
from ..errors import InputError
from .lines import read_lines
from .sentence_pairs import Corpus as Corpus
from .sentence_pairs import join_corpora
from .table import ParquetColumns, Table, suggest


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
        InputError: as `Table`; an unknown column or split; a split file of another length.
    """
    content: Table | ParquetColumns
    if Path(table).suffix == PARQUET:
        content = ParquetColumns(Path(table))
    else:
        quoted = is_csv(table)
        content = Table(table, separator or ("," if quoted else "\t"), header=header, quoted=quoted)
    source, target = content.select_column(source_column), content.select_column(target_column)
    first, count = content.first + 1, len(source)
    if split is None or split_file is None:
        return Corpus(source, target, range(first, first + count), str(table))
    numbers = _find_split(read_lines(split_file), split, count, table, split_file)
    return Corpus(source.select(numbers), target.select(numbers), (numbers + first).tolist(), str(table))


FORMATS: dict[str, Callable[..., Corpus]] = {"source": read_parallel_files, "table": read_table}
"""The key of the config's corpus section that holds a format's file -> the function that reads the format. The
function's parameters have the names of the keys that it takes."""


def read_corpus(settings: CorpusSettings | Sequence[CorpusSettings]) -> Corpus:
    """Reads the sentence pairs that a section of the config names, in the format whose key is given; of a list, the
    pairs of all its corpora, one after the other."""
    if not isinstance(settings, CorpusSettings):
        return join_corpora([read_corpus(corpus) for corpus in settings])
    read = next(read for key, read in FORMATS.items() if getattr(settings, key) is not None)
    values = {name: getattr(settings, name) for name in inspect.signature(read).parameters}
    shards = [{key: path for key, path in files.items() if key in values} for files in settings.shards()]
    return join_corpora([read(**(values | files)) for files in shards], "shards")


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

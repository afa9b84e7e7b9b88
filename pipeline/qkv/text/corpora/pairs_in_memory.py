"""Sentence pairs that the user passes from Python: the forms of the argument `pairs`, and the files of the pairs.

The pairs are written to temporary files while they are read, so that an iterator of any length takes little memory. A
training copies these files into the folder of its run.
"""

import gzip
import hashlib
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from ...errors import InputError, quoted
from ...files.atomic import replaced_when_done
from ...files.json import read_json_if_whole, write_json
from ...files.run_directory import RunDirectory
from ..lines.line import as_line, is_missing
from .formats import find_column
from .word_links import links_as_line

FILE_NAMES = {"source": "source.txt", "target": "target.txt", "alignments": "alignments.txt"}
"""The names of the files of pairs, by the setting of a corpus that names them."""
LARGE_BYTES = 1 << 26
"""The number of bytes from which the copies in a run are compressed."""
COUNTED_PAIRS = 50_000
"""The number of first pairs whose words and characters are counted, for a proposal of the vocabulary's size."""
BATCH_ROWS = 1000
"""The number of rows of a data set of Hugging Face that are read at a time."""
FORMS = "a DataFrame, a list or an iterator of (source, target), a tuple (sources, targets), or a datasets.Dataset"
ColumnKey = int | str
"""The number of a column, from 0, or its name."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpooledPairs:
    """Sentence pairs in temporary files, line by line, and with their word links, if they have any.

    Attributes:
        folder: the folder of the files.
        count: the number of pairs.
        sha256: the SHA-256 of each file, by its key in `FILE_NAMES`.
        sizes: the number of bytes of each file, by the same keys.
        words: the number of different words on both sides, between spaces, in the first `COUNTED_PAIRS` pairs.
        characters: the number of different characters on both sides of these pairs.
    """

    folder: Path
    count: int
    sha256: Mapping[str, str]
    sizes: Mapping[str, int]
    words: int
    characters: int

    @property
    def origin(self) -> dict[str, Any]:
        """The record of the pairs in a run, in its corpus report and in its manifest, values for JSON by key."""
        return {"from": "pairs in memory", "pairs": self.count, "sha256": dict(self.sha256)}

    def spooled_files(self) -> dict[str, Path]:
        """Returns the path of each temporary file, by the setting of a corpus that names it."""
        return {key: self.folder / FILE_NAMES[key] for key in self.sha256}

    def files_in(self, run: RunDirectory) -> dict[str, Path]:
        """Returns the path of each file in a run, by the setting of a corpus that names it. Nothing is written."""
        suffix = ".gz" if sum(self.sizes.values()) >= LARGE_BYTES else ""
        return {key: run.pairs / f"{FILE_NAMES[key]}{suffix}" for key in self.sha256}

    def check_same(self, run: RunDirectory) -> None:
        """Raises an `InputError` if a run has the text of other pairs."""
        kept = read_json_if_whole(run.pairs_origin)
        if kept and kept.get("sha256") != self.sha256:
            raise InputError(
                f"{run.root}: the run was started with other pairs: with {kept.get('pairs')}, and these are "
                f"{self.count}, or their text differs; give the same pairs, or none, to continue it, or start another "
                'run with these: settings={"run.name": NAME}'
            )

    def copy_into(self, run: RunDirectory) -> None:
        """Copies the files into a run, unless it has them already. The record of the pairs is written last."""
        if run.pairs_origin.is_file():
            return
        spooled = self.spooled_files()
        for key, path in self.files_in(run).items():
            with replaced_when_done(path) as temporary, spooled[key].open("rb") as text, ExitStack() as stack:
                copy: Any = stack.enter_context(temporary.open("wb"))
                if path.suffix == ".gz":  # without a time, so that equal text gives equal bytes
                    copy = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=1, fileobj=copy, mtime=0))
                shutil.copyfileobj(text, copy, 1 << 20)
        write_json(run.pairs_origin, self.origin)


def spool_pairs(
    pairs: Any,
    folder: Path,
    languages: tuple[str, str],
    columns: tuple[ColumnKey | None, ColumnKey | None] = (None, None),
) -> SpooledPairs:
    """Writes sentence pairs into files, one line for each, in Unicode's normal form NFC.

    A missing value (None, NaN) becomes an empty line. As in files, such pairs are left out of the training later.

    Args:
        pairs: the pairs, in one of these forms:

            - a data frame, of pandas or Polars. Source and target are the columns `columns`; if these are None, the
              columns named like `languages`, or `source` and `target`, or else the first two. Word links are in a
              column named `alignments`, or in the third column of three if the first two are taken.
            - a list, an array or an iterator of pairs `(source, target)` or of triples with word links.
            - a tuple of columns: `(sources, targets)` or `(sources, targets, links)`.
            - a `datasets.Dataset` of Hugging Face, with columns like those of a data frame, or with a column
              `translation` of dictionaries by language.

            Word links are Pharaoh text or pairs `(i, j)`, see `text.corpora.word_links.links_as_line`.
        folder: the folder to write into.
        languages: the codes of the source and the target language.
        columns: the number, from 0, or the name of the column of sources and of the column of targets.

    Raises:
        InputError: the pairs have another form, there are none, or a value is not text, has several lines or is not
            Unicode. The message names the row, counted from 1.
    """
    rows = _iterate_rows(pairs, languages, columns)
    first = next(rows, None)
    if first is None:
        raise InputError("pairs: expected sentence pairs, found none")
    keys = list(FILE_NAMES)[: len(first)]
    digests = {key: hashlib.sha256() for key in keys}
    words: set[str] = set()
    characters: set[str] = set()
    rows_read = missing = 0
    with ExitStack() as stack:
        files = [stack.enter_context((folder / FILE_NAMES[key]).open("wb")) for key in keys]
        for rows_read, row in enumerate(chain([first], rows), 1):
            if len(row) != len(keys):
                raise InputError(f"pairs:{rows_read}: expected {len(keys)} values, as in row 1, found {len(row)}")
            missing += is_missing(row[0]) or is_missing(row[1])
            lines = [_as_sentence(row[side], f"pairs:{rows_read}: {keys[side]}") for side in (0, 1)]
            for line in lines if rows_read <= COUNTED_PAIRS else ():
                characters.update(line)
                words.update(line.split())
            lines += [links_as_line(value, f"pairs:{rows_read}: alignments") for value in row[2:]]
            for line, file, digest in zip(lines, files, digests.values(), strict=True):
                data = f"{line}\n".encode()
                file.write(data)
                digest.update(data)
        sizes = {key: file.tell() for key, file in zip(keys, files, strict=True)}
    if missing:
        log.info("pairs: %d of %d have a missing value; they are left out like empty lines", missing, rows_read)
    sha256 = {key: digest.hexdigest() for key, digest in digests.items()}
    return SpooledPairs(folder, rows_read, sha256, sizes, len(words), len(characters))


def _as_sentence(value: Any, location: str) -> str:
    """Returns a sentence as a line; an empty line for a missing value. Raises an `InputError` if it is not a line."""
    if is_missing(value):
        return ""
    line = as_line(value, location)
    return line.removeprefix("\ufeff") if location.startswith("pairs:1:") else line  # as in files: a byte order mark


def _iterate_rows(
    pairs: Any, languages: tuple[str, str], columns: tuple[ColumnKey | None, ColumnKey | None]
) -> Iterator[Sequence[Any]]:
    """Returns an iterator over the rows of pairs in any form, see `spool_pairs`. A row has two or three values."""
    kind = type(pairs).__name__
    if isinstance(pairs, Mapping):
        keys = ", ".join(map(str, list(pairs)[:5]))
        raise InputError(
            f"pairs: expected {FORMS}, found a dictionary with the keys {quoted(keys)}: give one of its values, such "
            "as pairs['train'] of a DatasetDict; or make a table of its columns, pandas.DataFrame(pairs)"
        )
    if isinstance(pairs, str | bytes):
        raise InputError(
            f"pairs: expected {FORMS}, found {quoted(pairs)}; text in files is named in the config, such as "
            'settings={"data.train": {"table": "pairs.tsv"}}'
        )
    if isinstance(pairs, set | frozenset):
        raise InputError(f"pairs: expected {FORMS}, found a {kind}, which has no order: give sorted(pairs)")
    if hasattr(pairs, "column_names") and hasattr(pairs, "iter"):
        return _rows_of_dataset(pairs, languages, columns)
    if hasattr(pairs, "columns"):
        names = [str(name) for name in pairs.columns]
        numbers = _choose_columns(names, languages, columns)
        chosen = [pairs.iloc[:, i] if hasattr(pairs, "iloc") else pairs[names[i]] for i in numbers]
        return zip(*chosen, strict=True)
    if columns != (None, None):
        raise InputError(
            f"data.train: source_column and target_column choose columns of a table, and the pairs are a {kind}; "
            "leave them out, or give a DataFrame"
        )
    if isinstance(pairs, tuple):
        return _rows_of_columns(pairs)
    if getattr(pairs, "ndim", 1) != 1 and pairs.shape[1:] not in ((2,), (3,)):
        raise InputError(f"pairs: expected an array of the shape (pairs, 2), found {pairs.shape}")
    try:
        return map(_check_row, pairs, count(1))
    except TypeError:
        raise InputError(f"pairs: expected {FORMS}, found {quoted(pairs)}") from None


def _check_row(row: Any, number: int) -> Sequence[Any]:
    """Returns the two or three values of an element of a list of pairs; raises an `InputError` if it has others."""
    if isinstance(row, str):
        raise InputError(
            f"pairs:{number}: expected (source, target), found text, {quoted(row)}; two lists or Series are "
            "given as a tuple, pairs=(sources, targets)"
        )
    if isinstance(row, Mapping):
        raise InputError(
            f"pairs:{number}: expected (source, target), found a dictionary; give a table of such rows, "
            "pandas.DataFrame(pairs), or their values, ((row[SOURCE], row[TARGET]) for row in pairs)"
        )
    if not hasattr(row, "__len__") or not hasattr(row, "__getitem__"):
        raise InputError(f"pairs:{number}: expected (source, target), found {quoted(row)}")
    if len(row) not in (2, 3):
        are_columns = "; sources and targets in two lists are given as a tuple, pairs=(sources, targets)"
        raise InputError(
            f"pairs:{number}: expected (source, target) or (source, target, links), found {len(row):,} values"
            f"{are_columns if len(row) > 3 else ''}"
        )
    return list(row)


def _rows_of_columns(columns: tuple[Any, ...]) -> Iterator[Sequence[Any]]:
    """Returns an iterator over the rows of a tuple of two or three columns.

    Raises:
        InputError: the tuple has another length, is a pair of sentences or may be a tuple of pairs, or the columns have
            different lengths or pandas indexes. If a length is not known, the iterator raises the error at its end.
    """
    if len(columns) not in (2, 3) or any(isinstance(column, str | bytes) for column in columns):
        raise InputError(
            f"pairs: a tuple holds columns, (sources, targets) or (sources, targets, links), found {len(columns)} "
            f"values, the first a {type(columns[0]).__name__ if columns else 'missing'}; give pairs as a list, "
            "[(source, target), ...], or list(pairs)"
        )
    for number, (column, name) in enumerate(zip(columns, FILE_NAMES, strict=False)):
        if not isinstance(column, Iterable) or isinstance(column, Mapping | set | frozenset):
            raise InputError(f"pairs[{number}]: expected a list or a Series for {name}, found {quoted(column)}")
        if hasattr(column, "columns"):
            raise InputError(f"pairs[{number}]: expected one column for {name}, found a table: give frame['COLUMN']")
    if all(isinstance(column, tuple) and len(column) in (2, 3) for column in columns):
        raise InputError(
            "pairs: a tuple of short tuples may be two columns or two pairs; give columns as lists, "
            "([source, ...], [target, ...]), or pairs as a list, [(source, target), ...]"
        )
    lengths = [len(column) for column in columns if hasattr(column, "__len__")]
    if len(set(lengths)) > 1:
        raise InputError(f"pairs: expected columns of one length, found {' and '.join(f'{n:,}' for n in lengths)} rows")
    indexes = [column.index for column in columns if hasattr(column, "dropna") and hasattr(column, "index")]
    if not all(index.equals(indexes[0]) for index in indexes):
        raise InputError(
            "pairs: the Series have different indexes, so that their rows may not belong together; give them by "
            "position, (sources.to_numpy(), targets.to_numpy()), or as two columns of one DataFrame"
        )
    return _zipped(columns)


def _zipped(columns: Sequence[Iterable[Any]]) -> Iterator[Sequence[Any]]:
    """Yields the rows of columns; raises an `InputError` at the end of the shortest if another goes on."""
    iterators = [iter(column) for column in columns]
    end = object()
    for number in count(1):
        row = [next(iterator, end) for iterator in iterators]
        if all(value is end for value in row):
            return
        if any(value is end for value in row):
            raise InputError(f"pairs: expected columns of one length, found one that ends after {number - 1:,} rows")
        yield row


def _rows_of_dataset(
    dataset: Any, languages: tuple[str, str], columns: tuple[ColumnKey | None, ColumnKey | None]
) -> Iterator[Sequence[Any]]:
    """Yields the rows of a data set of Hugging Face; see `spool_pairs`."""
    names: list[str] = []
    for batch in dataset.iter(BATCH_ROWS):
        names = names or list(batch)
        if "translation" in names and columns == (None, None):
            rows = batch["translation"]
            codes = list(rows[0])
            if missing := [code for code in languages if code not in codes]:
                raise InputError(
                    f"pairs: column translation has no {' and no '.join(missing)}; it has {', '.join(codes)[:200]}; "
                    "name two of them as data.source_language and data.target_language"
                )
            sides = [[row[code] for row in rows] for code in languages]
            yield from zip(*sides, *([batch["alignments"]] if "alignments" in names else []), strict=True)
        else:
            numbers = _choose_columns(names, languages, columns)
            yield from zip(*(batch[names[number]] for number in numbers), strict=True)


def _choose_columns(
    names: Sequence[str], languages: tuple[str, str], columns: tuple[ColumnKey | None, ColumnKey | None]
) -> list[int]:
    """Returns the numbers of the columns of sources, of targets and, if there are any, of word links.

    Args:
        names: the names of all columns of a table.
        languages, columns: see `spool_pairs`.

    Raises:
        InputError: there is no such column, or several have its name; or there are fewer than two columns.
    """
    if len(names) < 2:
        raise InputError(f"pairs: expected a column of sources and one of targets, found {len(names)} column")
    named: Sequence[ColumnKey]
    named = next((keys for keys in (languages, ("source", "target")) if all(key in names for key in keys)), (0, 1))
    if columns != (None, None):
        named = [default if key is None else key for key, default in zip(columns, (0, 1), strict=True)]
    numbers = [find_column("pairs", names, key) for key in named]
    if numbers[0] == numbers[1]:
        raise InputError(f"pairs: column {names[numbers[0]]!r:.60} is named for sources and for targets; name two")
    if "alignments" in names:
        numbers.append(find_column("pairs", names, "alignments"))
    elif named == (0, 1) and columns == (None, None) and len(names) == 3:
        numbers.append(2)
    return numbers

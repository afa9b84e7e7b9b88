"""Fetch the English and French sentence pairs of manythings.org into data/manythings, with a split that does not leak.

This leaves the table as published, a file with the split of each pair, and a table of the pairs divided into
lower-cased words.
"""

import argparse
import gzip
import io
import lzma
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from data.fetch import download, prepared_alone, read_bounded, read_copy, require_files, sha256
from data.manythings.split import Pair, assign_splits, check_split, find_components, summarise
from data.manythings.tokenize_text import tokenize
from qkv.commands.cli import exit_cleanly
from qkv.errors import DAMAGE, InputError
from qkv.files.atomic import write_output
from qkv.files.paths import check_folder_to_write

URL = "https://www.manythings.org/anki/fra-eng.zip"
TABLE, ARCHIVE, SPLIT, TOKENIZED = "fra.txt", "fra-eng.zip", "split.txt", "tokenized.tsv"
CHECKSUM = "0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104"
"""SHA-256 of the `fra.txt` of 2019-04-07, with 167,130 pairs. All reported results are for this snapshot."""
KNOWN_SPLIT = Path(__file__).resolve().with_name("split.txt.gz")
"""The split of that snapshot for which results are reported."""


def read_copies(directory: Path) -> bytes:
    """Reads the table from a directory, where it may still be zipped."""
    if not (directory / TABLE).is_file() and (directory / ARCHIVE).is_file():
        return unzip(read_copy(directory / ARCHIVE), str(directory / ARCHIVE))
    require_files(directory, [TABLE])
    return read_copy(directory / TABLE)


def unzip(content: bytes, origin: str) -> bytes:
    """Unpacks the table from the published archive.

    Raises:
        InputError: the archive is damaged, is not an archive, or lacks the table.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(TABLE) as table:
            return read_bounded(table, f"{origin}, {TABLE}")
    except InputError:
        raise
    except (*DAMAGE, NotImplementedError, lzma.LZMAError) as error:  # encryption, unknown compression and flipped bits
        raise InputError(
            f"{origin}: no {TABLE} can be unzipped from it ({error}). Fetch it again, or by hand with a browser, and "
            "give its directory: --from DIRECTORY"
        ) from None


def check_snapshot(table: bytes, origin: str, accept_new: bool) -> None:
    """Compares the table with the known snapshot; the public one changes over time.

    Raises:
        InputError: it is another snapshot and `accept_new` is false.
    """
    found = sha256(table)
    if found == CHECKSUM:
        return
    message = f"{origin}: {TABLE} has SHA-256 {found}; expected {CHECKSUM}, the snapshot of 2019-04-07."
    if not accept_new:
        raise InputError(
            f"{message} The public file changes over time, or this copy is damaged; nothing was written. Scores on "
            "another snapshot cannot be compared with the reported ones. To use it anyway: --accept-new-snapshot"
        )
    sys.stderr.write(f"warning: {message} Scores on it cannot be compared with the reported ones.\n")


def read_pairs(table: bytes, origin: str) -> list[Pair]:
    """Reads the first two columns; newer snapshots have a third, on authors.

    Raises:
        InputError: the table is not UTF-8, or its rows do not all have two or all have three columns.
    """
    pairs = []
    width = table.partition(b"\n")[0].count(b"\t") + 1
    for number, line in enumerate(table.removesuffix(b"\n").split(b"\n"), 1):
        try:
            cells = line.decode("utf-8").removesuffix("\r").split("\t")
        except UnicodeDecodeError as error:
            raise InputError(f"{origin}:{number}: not UTF-8 ({error.reason}). Fetch the table again.") from None
        if len(cells) != width or width not in (2, 3):
            raise InputError(
                f"{origin}:{number}: {len(cells)} columns; expected English, French and in newer snapshots a third, "
                "divided by tabs, in every row alike. Fetch the table again."
            )
        pairs.append((cells[0], cells[1]))
    return pairs


def choose_split(table: bytes, pairs: Sequence[Pair], numbers: Sequence[int], copies: Path | None) -> list[str]:
    """The split beside the copies, or that of the known snapshot, or a new one drawn from the component `numbers`.

    Raises:
        InputError: the split does not fit the pairs, or leaks.
    """
    if copies is not None and (copies / SPLIT).is_file():
        path = copies / SPLIT
        labels = read_copy(path).decode(errors="replace").split()
    elif sha256(table) == CHECKSUM:
        path, labels = KNOWN_SPLIT, read_known_labels()
    else:
        return assign_splits(numbers)
    check_split(labels, pairs, str(path))
    return labels


def read_known_labels() -> list[str]:
    """Reads the split of the known snapshot."""
    return gzip.decompress(KNOWN_SPLIT.read_bytes()).decode().split()


def tokenize_pairs(pairs: Sequence[Pair]) -> bytes:
    """One line for each pair: English, a tab and French, divided into lower-cased words."""
    return "".join(f"{tokenize(english, 'en')}\t{tokenize(french, 'fr')}\n" for english, french in pairs).encode()


def prepare(output: Path, copies: Path | None, accept_new: bool) -> str:
    """Writes the table and the files made of it, or none of them if the table is not right. Returns a summary."""
    check_folder_to_write(output)
    origin = URL if copies is None else str(copies)
    table = unzip(download(URL), URL) if copies is None else read_copies(copies)
    check_snapshot(table, origin, accept_new)
    pairs = read_pairs(table, TABLE)
    numbers = find_components(pairs)
    labels = choose_split(table, pairs, numbers, copies)
    with prepared_alone(output, (TABLE, SPLIT, TOKENIZED)):
        write_output(output / TABLE, table)
        write_output(output / SPLIT, "".join(f"{label}\n" for label in labels).encode())
        write_output(output / TOKENIZED, tokenize_pairs(pairs))
    return summarise(labels, numbers)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--from",
        dest="copies",
        type=Path,
        metavar="DIRECTORY",
        help="take the files from this folder instead of downloading them",
    )
    here = Path(__file__).resolve().parent
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIRECTORY",
        default=here,
        help="folder to write to (default: that of this script)",
    )
    parser.add_argument(
        "--accept-new-snapshot", action="store_true", help="accept a table that is not the snapshot of 2019-04-07"
    )
    options = parser.parse_args(arguments)
    print(prepare(options.output, options.copies, options.accept_new_snapshot))
    print(f"Left {TABLE}, {SPLIT} and {TOKENIZED} in {options.output}; CC BY 2.0, tatoeba.org and manythings.org.")


if __name__ == "__main__":
    sys.exit(main())

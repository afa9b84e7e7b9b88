"""Fetch the English and German text of Multi30k, task 1, into data/multi30k.

This leaves the raw sentences and, under lc.norm.tok/, their published lower-cased, normalised and Moses-tokenised form,
on which BLEU is usually reported. Every file is checked against its SHA-256.
"""

import argparse
import gzip
import io
import sys
import zlib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from data.fetch import download, is_prepared, prepared_alone, read_bounded, read_copy, require_files, verify
from qkv.commands.cli import exit_cleanly
from qkv.errors import InputError
from qkv.files.atomic import write_output

# Both commits are fixed, since later ones may correct the English training text.
BASE_URL = "https://raw.githubusercontent.com/multi30k/dataset"
RAW_COMMIT = "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab"
TOKENIZED_COMMIT = "7bee46bc74186b4b6254603143610f730d40bf66"
TOKENIZED = "lc.norm.tok"

CHECKSUMS = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "lc.norm.tok/train.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "lc.norm.tok/train.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "lc.norm.tok/val.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "lc.norm.tok/val.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "lc.norm.tok/test_2016_flickr.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "lc.norm.tok/test_2016_flickr.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
}
"""The SHA-256 of each text, uncompressed."""


def make_address(name: str) -> str:
    """The address of a text of `CHECKSUMS`: raw text is published gzipped, tokenised text as it is."""
    directory, _, file = name.rpartition("/")
    if directory != TOKENIZED:
        return f"{BASE_URL}/{RAW_COMMIT}/data/task1/raw/{name}.gz"
    split, language = file.rsplit(".", 1)
    return f"{BASE_URL}/{TOKENIZED_COMMIT}/data/task1/tok/{split}.{TOKENIZED}.{language}"


def unpack_text(content: bytes, origin: str) -> bytes:
    """Unpacks a text if it is gzipped, and ends its last line if it has no end.

    Raises:
        InputError: the gzip file is damaged.
    """
    if content.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(content)) as file:
                content = read_bounded(file, origin)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{origin}: damaged gzip file ({error}). Fetch it again.") from None
    return content if content.endswith(b"\n") else content + b"\n"


def prepare(output: Path, copies: Path | None) -> None:
    """Writes every file of `CHECKSUMS` under `output`, from `copies` or else from the public address.

    Files that have the right checksum already are not fetched again, so an interrupted download can be repeated.
    """
    if copies is not None:
        require_files(copies, CHECKSUMS)
    with prepared_alone(output, CHECKSUMS):
        for name, checksum in CHECKSUMS.items():
            if is_prepared(output / name, checksum):
                continue
            origin = make_address(name) if copies is None else str(copies / name)
            content = download(origin) if copies is None else read_copy(copies / name)
            write_output(output / name, verify(unpack_text(content, origin), checksum, origin))


def summarise(output: Path) -> str:
    """One line for each file, with its number of lines."""
    counts = {name: (output / name).read_bytes().count(b"\n") for name in CHECKSUMS}
    return "\n".join(f"{count:7,} lines  {output / name}" for name, count in counts.items())


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
    options = parser.parse_args(arguments)
    prepare(options.output, options.copies)
    print(summarise(options.output))
    print("Checked. For non-commercial research; see data/multi30k/README.md.")


if __name__ == "__main__":
    sys.exit(main())

"""Downloads and checks text, for the `prepare.py` scripts."""

import gzip
import hashlib
import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from qkv.errors import InputError
from qkv.files.atomic import delete_temporary_files
from qkv.files.lock import folder_locked
from qkv.files.paths import check_folder_to_write
from qkv.files.paths import sha256 as sha256_of_file

_CHUNK_BYTES = 1 << 16
_BAR_WIDTH = 30
_TIMEOUT_SECONDS = 60
MOST_BYTES = 500_000_000
"""The largest file that is downloaded, read or unpacked: several times what the corpora have."""
# Some servers, manythings.org among them, refuse the name that urllib gives by default.
_HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; qkv-prepare)"}


def sha256(content: bytes) -> str:
    """The SHA-256 of `content`, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def verify(content: bytes, checksum: str, origin: str) -> bytes:
    """Returns `content` if it has this SHA-256. `origin` says in the message where it came from.

    Raises:
        InputError: it has another one.
    """
    found = sha256(content)
    if found != checksum:
        raise InputError(
            f"{origin}: SHA-256 {found}; expected {checksum}. The file is damaged or of another version, and was "
            "not kept. Fetch it again, or give a directory with the right one: --from DIRECTORY"
        )
    return content


def is_prepared(path: Path, checksum: str) -> bool:
    """Whether the file exists and has this SHA-256."""
    return path.is_file() and sha256_of_file(path) == checksum


def require_files(directory: Path, names: Iterable[str]) -> None:
    """Checks that a directory holds these files.

    Raises:
        InputError: files are missing; the message names them.
    """
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise InputError(
            f"{directory}: missing {', '.join(missing)}. Expected a directory with these files; "
            "leave --from out to download them."
        )


def check_size(size: int, origin: str) -> None:
    """Checks a size that a file has or claims.

    Raises:
        InputError: it is over `MOST_BYTES`.
    """
    if size > MOST_BYTES:
        raise InputError(
            f"{origin}: {size:,} bytes or more; expected at most {MOST_BYTES:,}. This is not the published file; "
            "fetch it again"
        )


def read_bounded(file: IO[bytes] | gzip.GzipFile, origin: str) -> bytes:
    """Reads a file, unpacked or not, whose claimed size is not to be believed.

    Raises:
        InputError: it has more than `MOST_BYTES`.
    """
    content = bytearray()
    while chunk := file.read(_CHUNK_BYTES):
        content += chunk
        check_size(len(content), origin)
    return bytes(content)


def read_copy(path: Path) -> bytes:
    """Reads a file of a directory that a person gives.

    Raises:
        InputError: it cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            return read_bounded(file, str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def download(url: str, stream: TextIO | None = None) -> bytes:
    """Downloads a file; shows a progress bar on a terminal and writes one line elsewhere.

    Args:
        url: `https://` or `file://`.
        stream: where progress is shown, by default standard error.

    Raises:
        InputError: no connection, no such file, or an incomplete transfer.
    """
    stream = stream or sys.stderr
    content = bytearray()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=_HEADERS), timeout=_TIMEOUT_SECONDS) as answer:
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdecimal() and len(length) < 20 else 0
            check_size(total, url)
            while chunk := answer.read(_CHUNK_BYTES):
                content += chunk
                check_size(len(content), url)
                _show_progress(url, len(content), total, stream)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise InputError(
            f"{url}: could not be downloaded ({error}). Check the connection and try again, or fetch the file by other "
            "means and give its directory: --from DIRECTORY"
        ) from None
    finally:
        if stream.isatty() and content:
            stream.write("\n")
    if len(content) < total:
        raise InputError(f"{url}: the connection ended after {len(content):,} of {total:,} bytes. Run this again.")
    if not stream.isatty():
        stream.write(f"{url.rsplit('/', 1)[-1]}: {len(content):,} bytes\n")
    return bytes(content)


def _show_progress(url: str, done: int, total: int, stream: TextIO) -> None:
    if not stream.isatty():
        return
    share = min(1.0, done / total) if total else 0.0
    bar = ("#" * round(share * _BAR_WIDTH)).ljust(_BAR_WIDTH, "-")
    stream.write(f"\r{url.rsplit('/', 1)[-1]:32.32} [{bar}] {done / 1e6:6.1f} of {total / 1e6:.1f} MB")
    stream.flush()


@contextmanager
def prepared_alone(output: Path, names: Iterable[str]) -> Iterator[None]:
    """Keeps other processes from preparing text in a folder within the block, and deletes what a killed one has left.

    Args:
        output: the folder, made if missing.
        names: the files that are prepared in it.

    Raises:
        InputError: another process prepares text there, or the folder cannot be written to.
        OSError: the folder cannot be made.
    """
    check_folder_to_write(output)
    output.mkdir(parents=True, exist_ok=True)
    with folder_locked(output / ".lock", "prepares text here"):
        for name in names:
            delete_temporary_files(output / name)
        yield

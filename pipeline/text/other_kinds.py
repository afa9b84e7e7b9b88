"""Files that are no text in UTF-8, told by their first bytes."""

from pathlib import Path

from ..errors import InputError
from .arrow_files import PARQUET

_OTHER_KINDS = {  # by their first bytes
    b"PK\x03\x04": "a spreadsheet (.xlsx, .ods) or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or document (.xls, .doc)",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    PARQUET + b"\x15": "a Parquet file, which is read as a table if its name ends in .parquet",
    b"%PDF-": "a PDF",
}


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Refuses a file of another kind, and text in UTF-16.

    Args:
        path: the file.
        start: its first bytes.

    Raises:
        InputError: it is one.
    """
    kind = next((kind for signature, kind in _OTHER_KINDS.items() if start.startswith(signature)), None)
    if kind:
        raise InputError(
            f"{path}: this is {kind}; expected UTF-8 text, gzipped or not: export or unpack it, a spreadsheet as text "
            "divided by tabs"
        )
    zeros = [start[first::2].count(0) for first in (0, 1)]
    if len(start) >= 32 and max(zeros) > len(start) / 3 and not min(zeros):
        raise InputError(
            f"{path}: every other byte is zero, as in UTF-16; expected UTF-8; convert the file: "
            "iconv -f UTF-16LE -t UTF-8 FILE > CONVERTED"
        )

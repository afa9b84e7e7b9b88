"""The gold alignments of an archive's sentences, in its file `gold.pharaoh`."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..text.pharaoh import GoldAlignment, read_pharaoh, write_gold
from .archive_format import GOLD


def read_gold(folder: Path, sentences: int) -> list[GoldAlignment] | None:
    """Reads the gold alignments of an archive; None where it has none.

    Args:
        folder: the archive's.
        sentences: the number of its sentences.

    Raises:
        InputError: the file is damaged, or has another number of lines.
    """
    path = folder / GOLD
    if not path.exists():
        return None
    gold = read_pharaoh(path)
    if len(gold) != sentences:
        raise InputError(
            f"{path}: {len(gold)} lines of alignments for {sentences} sentences; expected one each; mend or delete it"
        )
    return gold


def replace_gold(folder: Path, gold: Sequence[GoldAlignment] | None) -> None:
    """Writes the gold alignments of an archive, or deletes those of an earlier one."""
    if gold is None:
        (folder / GOLD).unlink(missing_ok=True)
    else:
        write_gold(folder / GOLD, gold)

"""The gold alignments of an archive's sentences, in its file `gold.pharaoh`."""

from pathlib import Path

from ..errors import InputError
from ..text.corpora.word_links import GoldAlignment, read_pharaoh
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

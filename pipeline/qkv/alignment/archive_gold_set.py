"""The sentences of an attention archive as a set with gold alignments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..inspection.archive import AttentionArchive
from ..text.corpora.corpus import Corpus
from ..text.corpora.word_links import GoldAlignment
from ..text.tokens.words import WordUnits, count_words
from .error_rate import check_ranges
from .gold import GoldSet


def gold_set_of(
    archive: AttentionArchive,
    name: str,
    gold: Sequence[GoldAlignment],
    path: Path | None = None,
) -> GoldSet:
    """Returns an archive's sentences with gold alignments, one for each in order.

    Args:
        archive: the archive.
        name: what messages and reports call it.
        gold: the alignments.
        path: the file that they were read from; None for the archive's own.

    Raises:
        InputError: their numbers differ, a target is the model's own, or no link is between words that exist.
    """
    if len(gold) != len(archive):
        raise InputError(f"{name}: {len(gold)} gold alignments for {len(archive)} sentences; expected one each")
    lines = [archive.sentence(id_) for id_ in archive.ids]
    for line in lines:
        if line["mode"] != "forced":
            raise InputError(
                f"{name}: sentence {line['id']} is a translation of the model (mode {line['mode']}), and gold links "
                "belong to a given text; expected an archive over references (evaluate.py --forced, mode 'forced')"
            )
    sides = [[_count_words(line, side) for line in lines] for side in ("source", "target")]
    checked, dropped = check_ranges(gold, sides[0], sides[1], path or archive.gold_file)
    if not any(alignment.possible for alignment in checked):
        raise InputError(
            f"{name}: no line has a gold link between words that exist ({dropped} links are out of range), so "
            "there is nothing to compare with; expected links such as 0-0 1-2, words counted from 0"
        )
    corpus = Corpus([line["source"] for line in lines], [line["hypothesis"] for line in lines], archive.ids, name)
    units = WordUnits(*({_unit(line, side) for line in lines}.pop() for side in ("source", "target")))
    return GoldSet(name, corpus, checked, dropped, units, list(zip(*sides, strict=True)))


def _unit(line: dict[str, Any], side: str) -> str:
    return line.get(f"{side}_unit", "spaces")


def _count_words(line: dict[str, Any], side: str) -> int:
    """Returns the number of a sentence's words: those of its text, where it may have been cut short."""
    words = line[f"{side}_words"]
    with_token = 1 + max((word for word in words if word is not None), default=-1)
    if _unit(line, side) == "subwords":
        return with_token
    text = line["source" if side == "source" else "hypothesis"]
    return max(with_token, count_words(text, _unit(line, side)))

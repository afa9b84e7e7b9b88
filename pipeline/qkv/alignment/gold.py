"""Sentence pairs with gold word alignments, of files, a config or an archive: a readout is chosen on one set and scored
on another, beside baselines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import RunConfig
from ..config.choices.inspection import SITES
from ..config.corpus import CorpusSettings
from ..errors import InputError
from ..files.paths import missing_file
from ..inspection.archive import AttentionArchive
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_corpus
from ..text.corpora.word_links import FROM_0, IN_CONFIG, GoldAlignment, check_count, read_pharaoh
from ..text.tokens.words import AT_SPACES, WordSegmenter, WordUnits, word_ends
from .error_rate import check_ranges
from .readout import aligned_sites

FIRST_INDEX = "give --first_index 1 (first_index=1 from Python)"


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs with gold word alignments.

    Args:
        name: what messages and reports call it.
        corpus: the pairs.
        gold: the `GoldAlignment` of each pair; all links are inside their sentences.
        dropped_links: how many links of the file pointed outside their sentences.
        units: what the links count as words.
        word_counts: (source words, target words) of each pair.
    """

    name: str
    corpus: Corpus
    gold: Sequence[GoldAlignment]
    dropped_links: int
    units: WordUnits
    word_counts: Sequence[tuple[int, int]]


def read_gold_set(
    name: str,
    corpus: Corpus,
    path: str | Path,
    turned: bool = False,
    cutter: WordSegmenter = AT_SPACES,
    first_index: int = 0,
    remedy: str = FROM_0,
) -> GoldSet:
    """Reads the gold alignments of a set's pairs.

    Args:
        name: what messages and reports call the set.
        corpus: the pairs.
        path: the file of the links.
        turned, first_index: see `read_pharaoh`.
        cutter: cuts the words that the links count.
        remedy: what to do if `first_index` should be 1, for messages.

    Raises:
        InputError: the file does not have one line per pair, a line is not in Pharaoh format, no line has a link, or
            words seem to be counted from 1.
    """
    gold = read_pharaoh(path, turned, first_index)
    check_count(path, len(gold), corpus)
    units = cutter.units(corpus.source, corpus.target)
    counts = list(zip(*cutter.count(corpus.source, corpus.target, units), strict=True))
    return GoldSet(name, corpus, *check_ranges(gold, counts, path, first_index, remedy), units, counts)


def read_configured_gold(
    settings: CorpusSettings | Sequence[CorpusSettings], name: str, cutter: WordSegmenter
) -> GoldSet | None:
    """Reads the set that a section of the config names; None where it has no gold alignments, and for a list."""
    if not isinstance(settings, CorpusSettings) or settings.alignments is None:
        return None
    return read_gold_set(
        name,
        read_corpus(settings).in_memory(),
        settings.alignments,
        settings.alignments_turned,
        cutter,
        settings.alignments_first_index,
        IN_CONFIG,
    )


def alignment_sites(config: RunConfig) -> tuple[str, ...]:
    """Returns the sites from which alignments are read; `gradients`, which takes long, only if the config lists it."""
    return tuple(site for site in aligned_sites() if SITES[site].forced or site in config.inspection.attention)


def choice_settings(config: RunConfig) -> CorpusSettings | None:
    """Returns the set on which readouts are chosen: `inspection.choose_head_on`, by default the validation set; None
    for an imported run without the former."""
    choice = config.inspection.choose_head_on
    return config.data.validation if choice is None else CorpusSettings(**choice.model_dump())


def missing_choice_file(config: RunConfig) -> Path | None:
    """Returns a file of the set on which readouts are chosen that is not there, as in a run that was moved; None if all
    are there, or the set has no gold alignments."""
    settings = choice_settings(config)
    if settings is None or settings.alignments is None:
        return None
    return missing_file(settings)


def read_choice_set(config: RunConfig, cutter: WordSegmenter) -> GoldSet | None:
    """Reads the set on which readouts are chosen; None if it has no gold alignments, or its files are not there."""
    settings = choice_settings(config)
    if settings is None or missing_choice_file(config) is not None:
        return None
    name = "validation" if settings == config.data.validation else str(settings.alignments)
    return read_configured_gold(settings, name, cutter)


def gold_set_of(
    archive: AttentionArchive, name: str, gold: Sequence[GoldAlignment], path: Path | None = None, first_index: int = 0
) -> GoldSet:
    """Returns the sentences of an archive with gold alignments, one for each in order.

    Args:
        archive: the archive.
        name: what messages and reports call it.
        gold: the alignments.
        path: the file that they were read from; None if they are the archive's own.
        first_index: the number of the first word in that file.

    Raises:
        InputError: their numbers differ, a target is the model's own, no link is between words that exist, or words
            seem to be counted from 1.
    """
    if len(gold) != len(archive):
        raise InputError(f"{name}: {len(gold)} gold alignments for {len(archive)} sentences; expected one each")
    lines = archive.lines
    for line in lines:
        if line["mode"] != "forced":
            raise InputError(
                f"{name}: sentence {line['id']} is a translation of the model (mode {line['mode']}), and gold links "
                "belong to a given text; expected an archive of references (evaluate.py --forced)"
            )
    counts = [(_count_words(line, "source"), _count_words(line, "target")) for line in lines]
    corpus = Corpus([line["source"] for line in lines], [line["hypothesis"] for line in lines], archive.ids, name)
    units = WordUnits(*({_unit(line, side) for line in lines}.pop() for side in ("source", "target")))
    remedy = FROM_0 if path is None else FIRST_INDEX
    checked = check_ranges(gold, counts, path or archive.gold_file, first_index, remedy)
    return GoldSet(name, corpus, *checked, units, counts)


def _unit(line: dict[str, Any], side: str) -> str:
    return line.get(f"{side}_unit", "spaces")


def _count_words(line: dict[str, Any], side: str) -> int:
    """Returns the number of a sentence's words, in its text too, since the tokens may have been cut short."""
    with_token = 1 + max((word for word in line[f"{side}_words"] if word is not None), default=-1)
    if _unit(line, side) == "subwords":
        return with_token
    text = line["source" if side == "source" else "hypothesis"]
    return max(with_token, len(word_ends(text, _unit(line, side))))

"""Sentence pairs with gold word alignments, read from files, from the sets of a config or from an archive.

The choice set of a run is the set on whose gold alignments its readout is chosen: `inspection.choose_head_on` of its
config, by default the validation set. Scores of a readout are reported on another set.
"""

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
from ..text.corpora.word_links import FROM_0, IN_CONFIG, GoldAlignment, check_line_count, read_pharaoh
from ..text.tokens.words import AT_SPACES, WordSegmenter, WordUnits, word_ends
from .error_rate import check_ranges
from .readout import aligned_sites

FIRST_INDEX_ADVICE = "give --first_index 1 (first_index=1 from Python)"
"""The advice in the message if the words in a file that the user names seem to be counted from 1."""


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs with gold word alignments.

    Args:
        name: the name of the set in messages and reports.
        corpus: the sentence pairs.
        gold: the gold alignment of each pair. All links are inside their sentences.
        dropped_links: the number of links in the file that pointed outside their sentences.
        units: the units that count as words.
        word_counts: the numbers of source words and of target words of each pair.
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
    segmenter: WordSegmenter = AT_SPACES,
    first_index: int = 0,
    remedy: str = FROM_0,
) -> GoldSet:
    """Reads the gold alignments of sentence pairs from a file.

    Args:
        name: the name of the set in messages and reports.
        corpus: the sentence pairs.
        path: the file of the links, in Pharaoh format.
        turned: if True, the links in the file are target-source instead of source-target.
        segmenter: divides the sentences into the words that the links count.
        first_index: the number of the first word in the file, 0 or 1.
        remedy: the advice in the message if words seem to be counted from 1 although `first_index` is 0.

    Returns:
        The set. Links that point outside their sentences are dropped.

    Raises:
        InputError: the file cannot be read; it does not have one line for each pair; a line is not in Pharaoh format;
            no link is inside its sentences; or words seem to be counted from 1.
    """
    return check_gold_set(name, corpus, read_pharaoh(path, turned, first_index), path, segmenter, first_index, remedy)


def check_gold_set(
    name: str,
    corpus: Corpus,
    gold: Sequence[GoldAlignment],
    path: str | Path,
    segmenter: WordSegmenter,
    first_index: int,
    remedy: str,
) -> GoldSet:
    """Returns sentence pairs with gold alignments that have been read already.

    Args:
        gold: the gold alignment of each pair.
        path: the file of the links, or another location, for messages.
        name, corpus, segmenter, first_index, remedy: see `read_gold_set`.

    Raises:
        InputError: there is not one alignment for each pair; no link is inside its sentences; or words seem to be
            counted from 1.
    """
    check_line_count(path, len(gold), corpus)
    units = segmenter.units(corpus.source, corpus.target)
    counts = list(zip(*segmenter.count(corpus.source, corpus.target, units), strict=True))
    checked, dropped_links = check_ranges(gold, counts, path, first_index, remedy)
    return GoldSet(name, corpus, checked, dropped_links, units, counts)


def read_configured_gold(
    settings: CorpusSettings | Sequence[CorpusSettings], name: str, segmenter: WordSegmenter
) -> GoldSet | None:
    """Reads a set of a config with its gold alignments.

    Args:
        settings: the section of the config, or the list of sections, that describes the set.
        name: the name of the set in messages and reports.
        segmenter: divides the sentences into the words that the links count.

    Returns:
        The set. None if it has no gold alignments, or if it is a list of corpora.

    Raises:
        InputError: a file of the set cannot be read; or see `read_gold_set`.
    """
    if not isinstance(settings, CorpusSettings) or settings.alignments is None:
        return None
    return read_gold_set(
        name,
        read_corpus(settings).in_memory(),
        settings.alignments,
        settings.alignments_turned,
        segmenter,
        settings.alignments_first_index,
        IN_CONFIG,
    )


def alignment_sites(config: RunConfig) -> tuple[str, ...]:
    """Returns the sites from which links are read to choose a readout.

    `gradients`, which take long to compute, are among them only if `inspection.attention` of the config has them.
    """
    return tuple(site for site in aligned_sites() if SITES[site].forced or site in config.inspection.attention)


def choice_settings(config: RunConfig) -> CorpusSettings | None:
    """Returns the settings of a run's choice set.

    The settings are `inspection.choose_head_on`, or `data.validation` if `choose_head_on` is null. Returns None if both
    are null; an imported run, for example, has no validation set.
    """
    choice = config.inspection.choose_head_on
    return config.data.validation if choice is None else CorpusSettings(**choice.model_dump())


def missing_choice_file(config: RunConfig) -> Path | None:
    """Returns the path of a file of the choice set that does not exist, for example because the run was moved.

    Returns None if all files exist, if the choice set has no gold alignments, or if there is no choice set.
    """
    settings = choice_settings(config)
    if settings is None or settings.alignments is None:
        return None
    return missing_file(settings)


def read_choice_set(config: RunConfig, segmenter: WordSegmenter) -> GoldSet | None:
    """Reads a run's choice set.

    Args:
        config: the config of the run.
        segmenter: divides the sentences into the words that the links count.

    Returns:
        The choice set. None if there is none, if it has no gold alignments, or if one of its files does not exist.

    Raises:
        InputError: a file of the set cannot be read; or see `read_gold_set`.
    """
    settings = choice_settings(config)
    if settings is None or missing_choice_file(config) is not None:
        return None
    name = "validation" if settings == config.data.validation else str(settings.alignments)
    return read_configured_gold(settings, name, segmenter)


def gold_set_of(
    archive: AttentionArchive, name: str, gold: Sequence[GoldAlignment], path: Path | None = None, first_index: int = 0
) -> GoldSet:
    """Combines the sentences of an archive with gold alignments.

    Args:
        archive: the archive.
        name: the name of the archive in messages and reports.
        gold: the gold alignment of each sentence, in order.
        path: the file of the gold alignments; None if they are part of the archive.
        first_index: the number of the first word in that file, 0 or 1.

    Raises:
        InputError: the number of gold alignments is not the number of sentences; a target is a translation of the
            model; all links point outside their sentences; or words seem to be counted from 1.
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
    remedy = FROM_0 if path is None else FIRST_INDEX_ADVICE
    checked, dropped_links = check_ranges(gold, counts, path or archive.gold_file, first_index, remedy)
    return GoldSet(name, corpus, checked, dropped_links, units, counts)


def _unit(line: dict[str, Any], side: str) -> str:
    """Returns the unit of words on a side, a key of `config.choices.text.WORD_UNITS`.

    Args:
        line: a line of an archive's `sentences.jsonl`.
        side: `source` or `target`.
    """
    return line.get(f"{side}_unit", "spaces")


def _count_words(line: dict[str, Any], side: str) -> int:
    """Returns the number of words on a side of a sentence.

    The words of the text count too if they have no token, because the model may have cut the sentence.
    """
    words_with_token = 1 + max((word for word in line[f"{side}_words"] if word is not None), default=-1)
    if _unit(line, side) == "subwords":
        return words_with_token
    text = line["source" if side == "source" else "hypothesis"]
    return max(words_with_token, len(word_ends(text, _unit(line, side))))

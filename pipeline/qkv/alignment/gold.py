"""Sets with gold word alignments: a readout is chosen on one set and scored on another, beside baselines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config import RunConfig
from ..config.corpus import CorpusSettings
from ..config.names.inspection import SITES
from ..errors import InputError
from ..inspection.record import Record
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_corpus
from ..text.corpora.word_links import GoldAlignment, read_pharaoh
from ..text.tokens.words import AT_SPACES, WordCutter, WordUnits
from .error_rate import alignment_error_rate, check_ranges, diagonal_links, random_links
from .heads import HeadCounts, best_row, count_heads, score_heads
from .readout import AlignmentReadout, ChosenReadout, aligned_sites


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
    cutter: WordCutter = AT_SPACES,
) -> GoldSet:
    """Reads the gold alignments of a corpus, whose links count the words that `cutter` cuts; see `read_pharaoh`.

    Args:
        name: of the set.
        corpus: its pairs.
        path: the file of its alignments.
        turned: see `read_pharaoh`.
        cutter: what counts as a word.

    Raises:
        InputError: the file does not have one line per pair, a line is not in Pharaoh format, or no line has a link.
    """
    gold = read_pharaoh(path, turned)
    if len(gold) != len(corpus):
        raise InputError(
            f"{path}: {len(gold)} lines of alignments for the {len(corpus)} pairs of {corpus.name}; "
            "expected one per pair"
        )
    units = cutter.units(corpus.source, corpus.target)
    sides = cutter.count(corpus.source, corpus.target, units)
    gold, dropped = check_ranges(gold, *sides, path)
    if not any(alignment.possible for alignment in gold):
        raise InputError(
            f"{path}: no line has a link between words that exist ({dropped} links are out of range), so there "
            f"is nothing to compare with; expected links such as 0-0 1-2, words counted from 0"
        )
    return GoldSet(name, corpus, gold, dropped, units, list(zip(*sides, strict=True)))


def read_configured_gold(
    settings: CorpusSettings | Sequence[CorpusSettings], name: str, cutter: WordCutter
) -> GoldSet | None:
    """Reads the set that a section of the config names; None where it has no gold alignments, and for a list."""
    if not isinstance(settings, CorpusSettings) or settings.alignments is None:
        return None
    return read_gold_set(
        name,
        read_corpus(settings).in_memory(),
        settings.alignments,
        turned=settings.alignments_turned,
        cutter=cutter,
    )


def choice_settings(config: RunConfig) -> CorpusSettings | None:
    """Returns the set on which readouts are chosen: `inspection.choose_head_on`, by default the validation set; None
    for an imported run without the former."""
    choice = config.inspection.choose_head_on
    return config.data.validation if choice is None else CorpusSettings(**choice.model_dump())


def read_choice_set(config: RunConfig, cutter: WordCutter) -> GoldSet | None:
    """Reads the set on which readouts are chosen; None where it has no gold alignments."""
    settings = choice_settings(config)
    if settings is None:
        return None
    name = "validation" if settings == config.data.validation else str(settings.alignments)
    return read_configured_gold(settings, name, cutter)


def alignment_sites(config: RunConfig) -> tuple[str, ...]:
    """Returns the sites from which a run's alignments are read; `gradients`, which takes long, only if the config lists
    it."""
    return tuple(site for site in aligned_sites() if SITES[site].forced or site in config.inspection.attention)


def head_table(records: Iterable[Record], gold_set: GoldSet) -> pd.DataFrame:
    """Scores every readout of the records, which must be the gold set's pairs read by `record_references`."""
    return score_heads(records, gold_set.gold, gold_set.word_counts)


def head_counts(records: Iterable[Record], gold_set: GoldSet) -> HeadCounts:
    """Counts the links of every readout, as `head_table`, sentence by sentence."""
    return count_heads(records, gold_set.gold, gold_set.word_counts)


def choose_readout(table: pd.DataFrame, chosen_on: str) -> ChosenReadout:
    """Returns the readout with the lowest error rate in the table of the set that `chosen_on` names."""
    return ChosenReadout.from_row(best_row(table), chosen_on=chosen_on)


def alignment_metrics(table: pd.DataFrame, readout: ChosenReadout, gold_set: GoldSet, seed: int = 0) -> dict[str, Any]:
    """Returns a readout's scores on a set, in percent, beside those of the diagonal, of random links and of the set's
    own best readout."""
    keys = ["site", "layer", "head", "side"]
    rows = table[(table[keys] == [getattr(readout, key) for key in keys]).all(axis=1)].set_index("linked")
    generator = np.random.default_rng(seed)
    diagonal = [diagonal_links(*counts) for counts in gold_set.word_counts]
    at_random = [random_links(*counts, generator) for counts in gold_set.word_counts]
    best = best_row(table)
    return {
        **{name: 100 * float(rows[name][readout.extraction]) for name in ("aer", "precision", "recall", "eos_share")},
        **{name: 100 * float(rows[name][readout.extraction]) for name in ("aer_low", "aer_high")},
        **readout.to_json(),
        "aer_by_links": {extraction: 100 * float(aer) for extraction, aer in rows["aer"].items()},
        "diagonal_aer": 100 * alignment_error_rate(diagonal, gold_set.gold).aer,
        "random_aer": 100 * alignment_error_rate(at_random, gold_set.gold).aer,
        "best_on_this_set": {"aer": 100 * float(best["aer"]), **AlignmentReadout.from_row(best).to_json()},
        "sentences": len(gold_set.corpus),
        "gold_links_out_of_range": gold_set.dropped_links,
        "words": gold_set.units._asdict(),
    }

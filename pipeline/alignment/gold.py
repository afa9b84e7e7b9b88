"""Attention held against gold word alignments: chosen on one set, reported on another, with baselines beside it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..config.data import CorpusSettings
from ..errors import InputError
from ..inspection.recorder import AttentionRecorder
from ..text.corpus import Corpus
from ..text.pharaoh import GoldAlignment, read_pharaoh
from ..text.prepare import read_corpus
from ..text.tokenizer import words_of
from ..trained_run import TrainedRun
from .error_rate import alignment_error_rate, check_ranges, diagonal_links, random_links
from .heads import choose, score_heads
from .readout import ALIGNED_SITES, AlignmentReadout, ChosenReadout


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs with gold word alignments.

    Args:
        name: what messages and reports call it.
        corpus: the pairs.
        gold: a `GoldAlignment` for each, all links inside their sentences.
        dropped_links: how many links of the file were not.
    """

    name: str
    corpus: Corpus
    gold: Sequence[GoldAlignment]
    dropped_links: int

    @property
    def word_counts(self) -> list[tuple[int, int]]:
        """(source words, target words) of each pair."""
        return [
            (len(words_of(source)), len(words_of(target)))
            for source, target in zip(self.corpus.source, self.corpus.target, strict=True)
        ]


def read_gold_set(name: str, corpus: Corpus, path: Any, first_index: int = 0, turned: bool = False) -> GoldSet:
    """Reads the gold alignments of a corpus; see `read_pharaoh`.

    Raises:
        InputError: there are fewer or more of them than pairs, a line is not in Pharaoh format, or none has a link.
    """
    gold = read_pharaoh(path, first_index, turned)
    if len(gold) != len(corpus):
        raise InputError(
            f"{path}: {len(gold)} lines of alignments for the {len(corpus)} pairs of {corpus.name}; expected one a pair"
        )
    counts = GoldSet(name, corpus, gold, 0).word_counts
    checked = check_ranges(gold, [source for source, _ in counts], [target for _, target in counts])
    if not any(alignment.possible for alignment in checked.gold):
        raise InputError(
            f"{path}: no line has a link between words that exist ({checked.dropped} links are out of range), so there "
            f"is nothing to compare with; expected links such as 0-0 1-2, words counted from {first_index} "
            "(alignments_first_index)"
        )
    return GoldSet(name, corpus, checked.gold, checked.dropped)


def read_sites(run: TrainedRun) -> tuple[str, ...]:
    """What alignments of a run are read off; gradients, which take long, only where its config asks for them."""
    return tuple(site for site in ALIGNED_SITES if site != "gradients" or site in run.config.inspection.attention)


def head_table(recorder: AttentionRecorder, gold_set: GoldSet) -> pd.DataFrame:
    """The error rate of every layer, head and side of what the recorder reads, in one forced pass over the pairs."""
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target)
    return score_heads(records, gold_set.gold, gold_set.word_counts)


def choose_head(table: pd.DataFrame, name: str) -> ChosenReadout:
    """The site, layer, head, side and way of linking with the lowest error rate on the set of that name."""
    return ChosenReadout(**asdict(_place(choose(table))), chosen_on=name)


def _place(row: pd.Series) -> AlignmentReadout:
    return AlignmentReadout(int(row["layer"]), row["head"], str(row["side"]), str(row["linked"]), str(row["site"]))


def alignment_metrics(table: pd.DataFrame, choice: ChosenReadout, gold_set: GoldSet, seed: int = 0) -> dict[str, Any]:
    """The chosen head's scores on a set, in percent, beside the diagonal, random links, and the set's own best head."""
    keys = ["site", "layer", "head", "side"]
    here = table[(table[keys] == [getattr(choice, key) for key in keys]).all(axis=1)].set_index("linked")
    scores = {name: 100 * float(here[name][choice.linked]) for name in ("aer", "precision", "recall", "eos_share")}
    generator = np.random.default_rng(seed)
    diagonal = [diagonal_links(*counts) for counts in gold_set.word_counts]
    at_random = [random_links(*counts, generator) for counts in gold_set.word_counts]
    best = choose(table)
    return {
        **scores,
        **asdict(choice),
        "aer_by_links": {linked: 100 * float(aer) for linked, aer in here["aer"].items()},
        "diagonal_aer": 100 * alignment_error_rate(diagonal, gold_set.gold).aer,
        "random_aer": 100 * alignment_error_rate(at_random, gold_set.gold).aer,
        "best_on_this_set": {"aer": 100 * float(best["aer"]), **asdict(_place(best))},
        "sentences": len(gold_set.corpus),
        "gold_links_out_of_range": gold_set.dropped_links,
    }


def _choice_settings(run: TrainedRun) -> CorpusSettings:
    """The set on which layer, head and side are chosen: a setting, by default the validation set."""
    return run.config.inspection.choose_head_on or run.config.data.validation


def choice_set(run: TrainedRun) -> GoldSet | None:
    """The gold alignments on which layer, head and side are chosen, where the config names some."""
    settings = _choice_settings(run)
    return _gold_of(settings, "validation" if settings == run.config.data.validation else str(settings.alignments))


def _gold_of(settings: CorpusSettings, name: str) -> GoldSet | None:
    if settings.alignments is None:
        return None
    return read_gold_set(
        name,
        read_corpus(settings).in_memory(),
        settings.alignments,
        settings.alignments_first_index,
        settings.alignments_turned,
    )

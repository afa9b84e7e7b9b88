"""Which pairs are trained on: odd ones and those of filters are left out, and others are joined."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..config.names.text import CORPUS_FILTERS, CORPUS_PROBLEMS
from ..errors import InputError
from ..files.arrays import ArrayStore
from .cleaning import CHUNK_PAIRS, Findings, find_odd_pairs
from .corpus import Corpus
from .corpus_report import report_findings
from .encoded_pairs import EncodedPairs
from .filters import with_near_duplicates
from .joined_pairs import draw_joined_pairs
from .listed_corpora import is_weighted
from .readings import TextFacts
from .repeated import find_repeated
from .sentence_pairs import JoinedCorpora


@dataclass(frozen=True)
class Selection:
    """The pairs to train on.

    Args:
        kept: the rows of the pairs that are kept, ascending.
        ends: the number of pairs up to the end of each corpus; a list has several.
        report: what was found and done, for `corpus_report.json`.
    """

    kept: np.ndarray
    ends: Sequence[int]
    report: dict[str, Any]

    @property
    def kept_of_corpora(self) -> list[np.ndarray]:
        """The kept rows of each corpus."""
        return np.split(self.kept, np.searchsorted(self.kept, self.ends)[:-1])


def select_training_pairs(data: DataSettings, training: Corpus, encoded: EncodedPairs, facts: TextFacts) -> Selection:
    """Selects the pairs that the settings let pass.

    Raises:
        InputError: they let none pass.
    """
    kept_problems = {"length_ratio": data.max_length_ratio is None}
    kept_problems["duplicate"] = data.filters is None or not data.filters.duplicates
    actions = {reason: "keep" if kept_problems.get(reason) else "drop" for reason in CORPUS_PROBLEMS}
    findings = Findings(tuple(CORPUS_PROBLEMS), _find_reasons(data, encoded, facts))
    is_kept = np.array([True, *(actions[reason] == "keep" for reason in findings.names)])[findings.reasons]
    filtered = Findings((), np.zeros(0, np.uint8))
    if data.filters is not None:
        reasons = np.where(is_kept, facts.filtered, 0).astype(np.uint8)
        with_near_duplicates(reasons, facts.near_digests, is_kept)
        filtered = Findings(tuple(CORPUS_FILTERS), reasons)
        is_kept &= reasons == 0
    if not is_kept.any():
        raise InputError(f"{training.name}: no training pair is left; see data.max_* and data.filters in the config")
    kept = _numbers_of(is_kept)
    report = report_findings(training, findings, actions, filtered, len(kept))
    listed = data.listed_corpora
    ends = training.ends if len(listed) > 1 and isinstance(training, JoinedCorpora) else [len(training)]
    if listed:
        report["corpora"] = list(_report_corpora(data, training, ends, is_kept, findings, filtered))
    return Selection(kept, ends, report)


def join_pairs(config: RunConfig, selection: Selection, segmentations: Sequence[EncodedPairs]) -> list[np.ndarray]:
    """Draws the pairs that are joined, of each corpus among themselves; of a list without weights and tags, of all."""
    draw = partial(
        draw_joined_pairs,
        segmentations=segmentations,
        share=config.data.joined_pairs,
        max_source_tokens=config.data.max_source_tokens,
        max_target_tokens=config.data.max_target_tokens,
    )
    seed, corpora = config.run.seed, selection.kept_of_corpora
    if len(corpora) == 1 or not (config.data.tags or is_weighted(config.data)):
        nothing = np.zeros((0, 2), np.int64)
        return [draw(selection.kept, seed=seed), *[nothing] * (len(corpora) - 1)]
    return [draw(kept, seed=[seed, number]) for number, kept in enumerate(corpora)]


def _find_reasons(data: DataSettings, encoded: EncodedPairs, facts: TextFacts) -> np.ndarray:
    repeated, reasons = find_repeated(facts.digests), ArrayStore(np.uint8)
    for first in range(0, len(repeated), CHUNK_PAIRS):
        part = slice(first, first + CHUNK_PAIRS)
        lengths = (np.diff(side.starts[first : first + CHUNK_PAIRS + 1]) for side in encoded.sides)
        reasons.add(
            find_odd_pairs(
                facts.empty[part],
                repeated[part],
                *lengths,
                max_source_tokens=data.max_source_tokens,
                max_target_tokens=data.max_target_tokens,
                max_length_ratio=data.max_length_ratio,
            )
        )
    return reasons.finish()


def _numbers_of(mask: np.ndarray) -> np.ndarray:
    store = ArrayStore(np.int64)
    for first in range(0, len(mask), CHUNK_PAIRS):
        store.add(np.flatnonzero(mask[first : first + CHUNK_PAIRS]) + first)
    return store.finish()


def _report_corpora(
    data: DataSettings,
    training: Corpus,
    ends: Sequence[int],
    is_kept: np.ndarray,
    findings: Findings,
    filtered: Findings,
) -> Iterator[dict[str, Any]]:
    parts = training.parts if len(ends) > 1 and isinstance(training, JoinedCorpora) else [training]
    for first, last, part, settings in zip([0, *ends], ends, parts, data.listed_corpora, strict=False):
        report = {"files": part.name, "pairs": last - first, "kept": int(is_kept[first:last].sum()), "joined": 0}
        report |= {"tag": settings.tag, "found": findings.count(first, last)}
        yield report | ({"filtered": filtered.count(first, last)} if filtered.names else {})

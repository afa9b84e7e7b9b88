"""The pairs that are trained on, and their report: odd pairs and those of filters are left out, some are joined."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..config import RunConfig
from ..config.data import DataSettings
from ..config.names.text import CORPUS_FILTERS, CORPUS_PROBLEMS
from ..errors import InputError
from ..files.arrays import ArrayStore
from .corpora.corpus import Corpus
from .corpora.filters import find_repeated, with_near_duplicates
from .corpora.mixture import make_mixture, ranges_of
from .corpora.overlap import MOST_LINES
from .shards import TextFacts
from .tokens.encoding import EncodedPairs, put_tags

CHUNK_PAIRS = 1 << 17
"""Judged at a time."""


NOTED_LENGTH_RATIO = 9.0  # of the pairs that the report counts where no ratio is too large
_SHORT_TOKENS = 10  # up to here a ratio of lengths says nothing ("Go." and "Vas-y, pars !")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """The pairs to train on.

    Args:
        kept: the rows of the pairs that are kept, ascending.
        ends: the number of pairs up to the end of each corpus; a list has several.
        findings: the pairs with one of `CORPUS_PROBLEMS`.
        actions: what was done with those of each: `drop` or `keep`.
        filtered: the pairs that filters left out; none where there are no filters.
    """

    kept: np.ndarray
    ends: Sequence[int]
    findings: "Findings"
    actions: Mapping[str, str]
    filtered: "Findings"

    @property
    def kept_of_corpora(self) -> list[np.ndarray]:
        """The kept rows of each corpus."""
        return np.split(self.kept, np.searchsorted(self.kept, self.ends)[:-1])


def select_training_pairs(data: DataSettings, training: Corpus, encoded: EncodedPairs, facts: TextFacts) -> Selection:
    """Selects the pairs that the settings let pass, and tells how many others there are.

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
    for found, done in ((findings, actions), (filtered, dict.fromkeys(CORPUS_FILTERS, "data.filters"))):
        for reason, count in found.count().items():
            if count:
                log.info("%s: %d of the training pairs (%s)", reason, count, done[reason])
    ends = training.ends if len(data.listed_corpora) > 1 else [len(training)]
    return Selection(_numbers_of(is_kept), ends, findings, actions, filtered)


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
    if len(corpora) == 1 or not (config.data.tags or config.data.is_weighted):
        nothing = np.zeros((0, 2), np.int64)
        return [draw(selection.kept, seed=seed), *[nothing] * (len(corpora) - 1)]
    return [draw(kept, seed=[seed, number]) for number, kept in enumerate(corpora)]


def tag_pairs(
    data: DataSettings, corpora: Sequence[Mapping[str, Any]], ids: Mapping[str, int], pairs: EncodedPairs
) -> EncodedPairs:
    """Puts the tags of the corpora before the sources of the kept pairs and of the joined ones behind them.

    Args:
        data: the settings.
        corpora: of `report_corpora`.
        ids: of the tags.
        pairs: the kept and the joined pairs.
    """
    if not data.tags:
        return pairs
    tags = [None if corpus.tag is None else ids[corpus.tag] for corpus in data.listed_corpora]
    ranges = ranges_of(corpora)
    return put_tags(pairs, [(*ranges[n][part], tag) for part in (0, 1) for n, tag in enumerate(tags)])


def report_corpora(
    data: DataSettings, training: Corpus, selection: Selection, joined: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    """Counts the pairs of each corpus of a list, and says which shares of an epoch the corpora have.

    Raises:
        InputError: nothing is left of a corpus that has a weight.
    """
    corpora = list(_count_corpora(data, training, selection, joined))
    mixture = make_mixture(data, corpora, 0)
    total = sum(corpus["kept"] + corpus["joined"] for corpus in corpora)
    for number, corpus in enumerate(corpora):
        own = (corpus["kept"] + corpus["joined"]) / total
        corpus["share"] = round(mixture.shares[number] if mixture else own, 6)
        corpus["repeats"] = round(mixture.repeats[number] if mixture else 1.0, 4)
    return corpora


def _count_corpora(
    data: DataSettings, training: Corpus, selection: Selection, joined: Sequence[np.ndarray]
) -> Iterator[dict[str, Any]]:
    first, filtered = 0, selection.filtered
    for number, (settings, last) in enumerate(zip(data.listed_corpora, selection.ends, strict=False)):
        yield {
            "files": (training.parts[number] if len(selection.ends) > 1 else training).name,
            "pairs": last - first,
            "kept": len(selection.kept_of_corpora[number]),
            "joined": len(joined[number]),
            "tag": settings.tag,
            "found": selection.findings.count(first, last),
            **({"filtered": filtered.count(first, last)} if filtered.names else {}),
        }
        first = last


def report_selection(training: Corpus, selection: Selection) -> dict[str, Any]:
    """Counts the pairs that are left out by reason, and lists the first `MOST_LINES` lines of each."""
    findings, filtered = selection.findings, selection.filtered
    return {
        "files": training.name,
        "pairs": len(training),
        "kept": len(selection.kept),
        "found": {
            reason: {"action": selection.actions[reason], "count": count} for reason, count in findings.count().items()
        },
        "lines": {
            reason: [training.shown_line(row) for row in found.first_rows(reason, MOST_LINES)]
            for found in (findings, filtered)
            for reason in found.names
        },
        **({"filtered": filtered.count()} if filtered.names else {}),
    }


@dataclass(frozen=True)
class Findings:
    """The odd pairs of a corpus, each with one reason.

    Args:
        names: all reasons.
        reasons: uint8 `(pairs,)`, for each pair the number of its reason, from 1 in the order of `names`; 0: none.
    """

    names: Sequence[str]
    reasons: npt.NDArray[np.uint8]

    def first_rows(self, name: str, most: int) -> list[int]:
        """Returns the numbers of the first pairs with that reason, from 0, at most `most`."""
        number, found = list(self.names).index(name) + 1, list[int]()
        for first in range(0, len(self.reasons), CHUNK_PAIRS):
            if len(found) < most:
                found += (np.flatnonzero(self.reasons[first : first + CHUNK_PAIRS] == number) + first).tolist()
        return found[:most]

    def count(self, first: int = 0, last: int | None = None) -> dict[str, int]:
        """Returns how many pairs there are for each reason, from row `first` to before row `last`."""
        last = len(self.reasons) if last is None else last
        counts = np.zeros(len(self.names) + 1, np.int64)
        for start in range(first, last, CHUNK_PAIRS):
            part = self.reasons[start : min(start + CHUNK_PAIRS, last)]
            counts += np.bincount(part, minlength=len(counts))
        return dict(zip(self.names, counts[1:].tolist(), strict=True))


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


def find_odd_pairs(
    empty: npt.NDArray[np.bool_],
    repeated: npt.NDArray[np.bool_],
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    max_source_tokens: int,
    max_target_tokens: int,
    max_length_ratio: float | None,
) -> npt.NDArray[np.uint8]:
    """Finds the pairs that rarely help training.

    - `empty_side`: a side has nothing that can be seen, see `is_empty`.
    - `over_long`: a side has more than its maximum of tokens.
    - `length_ratio`: the longer side, of more than 10 tokens, is more than `max_length_ratio` times the shorter.
    - `duplicate`: an earlier pair is exactly the same.

    Args:
        empty: of `find_empty`, `(pairs,)`.
        repeated: which pairs equal an earlier one, `(pairs,)`.
        source_lengths: int `(pairs,)`, in tokens.
        target_lengths: int `(pairs,)`, in tokens.
        max_source_tokens: inclusive.
        max_target_tokens: inclusive.
        max_length_ratio: inclusive, at least 1; `NOTED_LENGTH_RATIO` if not given.

    Returns:
        The reasons of `Findings`: of each odd pair the first of `CORPUS_PROBLEMS` that applies.
    """
    ratio = NOTED_LENGTH_RATIO if max_length_ratio is None else max_length_ratio
    longer = np.maximum(source_lengths, target_lengths)
    shorter = np.minimum(source_lengths, target_lengths)
    applies = {
        "empty_side": empty,
        "over_long": (source_lengths > max_source_tokens) | (target_lengths > max_target_tokens),
        "length_ratio": (longer > _SHORT_TOKENS) & (longer > ratio * np.maximum(shorter, 1)),
        "duplicate": repeated,
    }
    table = np.stack([np.zeros(len(empty), bool), *(applies[reason] for reason in CORPUS_PROBLEMS)])
    return table.argmax(axis=0).astype(np.uint8)


def _numbers_of(mask: np.ndarray) -> np.ndarray:
    store = ArrayStore(np.int64)
    for first in range(0, len(mask), CHUNK_PAIRS):
        store.add(np.flatnonzero(mask[first : first + CHUNK_PAIRS]) + first)
    return store.finish()


def draw_joined_pairs(
    kept: np.ndarray,
    segmentations: Sequence[EncodedPairs],
    *,
    share: float,
    max_source_tokens: int,
    max_target_tokens: int,
    seed: int | Sequence[int],
) -> np.ndarray:
    """Draws rows `(first, second)` of kept pairs that together fit the longest lengths in every segmentation.

    Args:
        kept: the rows of the pairs to draw from.
        segmentations: the pairs, in each segmentation.
        share: how many are drawn, as a share of the kept pairs; those that do not fit are left out.
        max_source_tokens: of both sources together.
        max_target_tokens: of both targets together.
        seed: of the draw.
    """
    count = len(kept)
    pairs = kept[np.random.default_rng(seed).integers(count, size=(round(share * count), 2))]
    fits = np.ones(len(pairs), bool)
    for segmentation in segmentations:
        fits &= segmentation.source.lengths_of(pairs).sum(axis=1) <= max_source_tokens
        fits &= segmentation.target.lengths_of(pairs).sum(axis=1) <= max_target_tokens
    return pairs[fits]

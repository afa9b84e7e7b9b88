"""The pairs that are trained on, and the report about them: odd and filtered pairs are left out, some are joined."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..config.choices.text import CORPUS_FILTERS, CORPUS_PROBLEMS
from ..errors import InputError
from ..files.arrays import ArrayStore
from .corpora.corpus import Corpus
from .corpora.filters import TextFilters, find_repeated, with_near_duplicates
from .corpora.mixture import Mixture
from .corpora.overlap import MOST_LINES
from .shards import ShardData
from .tokens.encoding import EncodedPairs

CHUNK_PAIRS = 1 << 17  # judged at a time
NOTED_LENGTH_RATIO = 9.0  # of the pairs that the report counts where no ratio is too large
MOST_CODES = 8  # of invisible characters that are named
_SHORT_TOKENS = 10  # up to here a ratio of lengths says nothing ("Go." and "Vas-y, pars !")
log = logging.getLogger(__name__)


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
        return np.flatnonzero(self.reasons == list(self.names).index(name) + 1)[:most].tolist()

    def count(self, first: int = 0, last: int | None = None) -> dict[str, int]:
        """Returns the number of pairs with each reason, from row `first` to before row `last`."""
        part = self.reasons[first:last]
        return {name: int(np.count_nonzero(part == number)) for number, name in enumerate(self.names, 1)}


@dataclass(frozen=True)
class Selection:
    """The pairs to train on.

    Args:
        kept: the rows of the pairs that are kept, ascending.
        findings: the pairs with one of `CORPUS_PROBLEMS`.
        actions: `drop` or `keep`, for each problem.
        filtered: the pairs that filters left out; without names where there are no filters.
    """

    kept: np.ndarray
    findings: Findings
    actions: Mapping[str, str]
    filtered: Findings

    def split(self, parts: Sequence[Corpus]) -> list[np.ndarray]:
        """Returns the kept rows of each part of the corpus."""
        ends = np.cumsum([len(part) for part in parts])
        return np.split(self.kept, np.searchsorted(self.kept, ends)[:-1])


def select_training_pairs(
    training: Corpus,
    encoded: EncodedPairs,
    facts: ShardData,
    *,
    longest: tuple[int, int],
    max_length_ratio: float | None,
    filters: TextFilters | None,
) -> Selection:
    """Selects the pairs to train on, and logs the number of odd and filtered pairs by reason.

    Args:
        training: all pairs.
        encoded: the same pairs, encoded.
        facts: the result of reading their text.
        longest: the maximum numbers of tokens in a source and in a target, inclusive.
        max_length_ratio: the largest ratio of the lengths of the two sides, inclusive. None keeps pairs of any ratio.
        filters: the filters that the text was read with. They also say whether to drop duplicates. None keeps all.

    Raises:
        InputError: no pair is left.
    """
    kept_problems = {"length_ratio": max_length_ratio is None, "duplicate": not (filters and filters.duplicates)}
    actions = {reason: "keep" if kept_problems.get(reason) else "drop" for reason in CORPUS_PROBLEMS}
    findings = Findings(tuple(CORPUS_PROBLEMS), _find_reasons(encoded, facts, longest, max_length_ratio))
    is_kept = np.array([True, *(actions[reason] == "keep" for reason in findings.names)])[findings.reasons]
    filtered = Findings((), np.zeros(0, np.uint8))
    if filters:
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
    return Selection(_rows_of(is_kept), findings, actions, filtered)


def _find_reasons(
    encoded: EncodedPairs, facts: ShardData, longest: tuple[int, int], max_length_ratio: float | None
) -> np.ndarray:
    repeated = find_repeated(facts.digests)
    reasons = ArrayStore(np.uint8)
    for first in range(0, len(repeated), CHUNK_PAIRS):
        part = slice(first, first + CHUNK_PAIRS)
        lengths = [np.diff(side.starts[first : first + CHUNK_PAIRS + 1]) for side in encoded.sides]
        reasons.add(find_odd_pairs(facts.empty[part], repeated[part], lengths, longest, max_length_ratio))
    return reasons.finish()


def find_odd_pairs(
    empty: npt.NDArray[np.bool_],
    repeated: npt.NDArray[np.bool_],
    lengths: Sequence[npt.NDArray[np.integer]],
    longest: tuple[int, int],
    max_length_ratio: float | None,
) -> npt.NDArray[np.uint8]:
    """Finds the pairs that rarely help training.

    - `empty_side`: a side has nothing that can be seen, see `is_empty`.
    - `over_long`: a side has more than its maximum of tokens.
    - `length_ratio`: the longer side, of more than 10 tokens, is more than `max_length_ratio` times the shorter.
    - `duplicate`: an earlier pair is exactly the same.

    Args:
        empty: the pairs with an empty side, `(pairs,)`, see `find_empty`.
        repeated: the pairs that equal an earlier one, `(pairs,)`.
        lengths: the tokens of each source and of each target, int `(pairs,)`.
        longest: the maximum of each side, inclusive.
        max_length_ratio: inclusive, at least 1; `NOTED_LENGTH_RATIO` if not given.

    Returns:
        The reasons of `Findings`: of each odd pair the first of `CORPUS_PROBLEMS` that applies.
    """
    ratio = NOTED_LENGTH_RATIO if max_length_ratio is None else max_length_ratio
    longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
    applies = {
        "empty_side": empty,
        "over_long": (lengths[0] > longest[0]) | (lengths[1] > longest[1]),
        "length_ratio": (longer > _SHORT_TOKENS) & (longer > ratio * np.maximum(shorter, 1)),
        "duplicate": repeated,
    }
    reasons = np.select([applies[reason] for reason in CORPUS_PROBLEMS], range(1, len(CORPUS_PROBLEMS) + 1))
    return reasons.astype(np.uint8)


def _rows_of(mask: np.ndarray) -> np.ndarray:
    store = ArrayStore(np.int64)
    for first in range(0, len(mask), CHUNK_PAIRS):
        store.add(np.flatnonzero(mask[first : first + CHUNK_PAIRS]) + first)
    return store.finish()


def draw_joined_pairs(
    kept: np.ndarray,
    segmentations: Sequence[EncodedPairs],
    *,
    share: float,
    longest: tuple[int, int],
    seed: int | Sequence[int],
) -> np.ndarray:
    """Draws rows `(first, second)` of kept pairs that together fit the longest lengths in every segmentation.

    Args:
        kept: the rows of the pairs to draw from.
        segmentations: the pairs, in each segmentation.
        share: how many are drawn, as a share of the kept pairs; those that do not fit are left out.
        longest: the maximum numbers of tokens of both sources and of both targets together.
        seed: of the draw.
    """
    count = len(kept)
    pairs = kept[np.random.default_rng(seed).integers(count, size=(round(share * count), 2))]
    fits = np.ones(len(pairs), bool)
    for segmentation in segmentations:
        for side, most in zip(segmentation.sides, longest, strict=True):
            fits &= side.lengths_of(pairs).sum(axis=1) <= most
    return pairs[fits]


def count_corpora(
    parts: Sequence[Corpus], tags: Sequence[str | None], selection: Selection, joined: Sequence[np.ndarray]
) -> Iterator[dict[str, Any]]:
    """Yields the numbers of kept and joined pairs of each corpus of a list, given its pairs and its tag."""
    first = 0
    for part, tag, kept, pairs in zip(parts, tags, selection.split(parts), joined, strict=True):
        last = first + len(part)
        yield {
            "files": part.name,
            "pairs": len(part),
            "kept": len(kept),
            "joined": len(pairs),
            "tag": tag,
            "found": selection.findings.count(first, last),
            **({"filtered": selection.filtered.count(first, last)} if selection.filtered.names else {}),
        }
        first = last


def add_shares(corpora: Sequence[dict[str, Any]], mixture: Mixture | None) -> None:
    """Adds to the counts of each corpus its share of an epoch, and how often its pairs come in one."""
    total = sum(corpus["kept"] + corpus["joined"] for corpus in corpora)
    for number, corpus in enumerate(corpora):
        own = (corpus["kept"] + corpus["joined"]) / total
        corpus["share"] = round(mixture.shares[number] if mixture else own, 6)
        corpus["repeats"] = round(mixture.repeats[number] if mixture else 1.0, 4)


def describe_invisible(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns in words how often each invisible character is in the training text, given the counts of each side by the
    codes of the characters, the most frequent first; empty if there are none."""
    sides = []
    for side, found in counts.items():
        named = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{code} ({count:,})" for code, count in named[:MOST_CODES])
        others = f" and {len(named) - MOST_CODES} more" if len(named) > MOST_CODES else ""
        sides += [f"{side} {shown}{others}"] if named else []
    return "; ".join(sides)


def report_selection(training: Corpus, selection: Selection) -> dict[str, Any]:
    """Returns the selection for the corpus report.

    Odd and filtered pairs are counted by reason, whether they were kept or dropped, and the first `MOST_LINES` lines of
    each reason are listed.
    """
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

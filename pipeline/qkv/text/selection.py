"""The choice of the pairs to train on: odd and filtered pairs are dropped, pairs are joined, and all are reported."""

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
from .corpora.filters import TextFilters, find_repeated, mark_near_duplicates
from .corpora.mixture import Mixture
from .corpora.overlap import MOST_LINES
from .shards import ShardData
from .tokens.encoding import EncodedPairs

CHUNK_PAIRS = 1 << 17  # the number of pairs that are examined at a time
NOTED_LENGTH_RATIO = 9.0  # the report counts pairs of a larger ratio if no `max_length_ratio` is set
MOST_CODES = 8  # the number of invisible characters of a side that are named in the log
_SHORT_TOKENS = 10  # up to this length a ratio of lengths means nothing ("Go." and "Vas-y, pars !")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Findings:
    """The odd pairs of a corpus, each with one reason.

    Args:
        names: the names of all reasons.
        reasons: the reason of each pair, uint8 `(pairs,)`: its number in `names`, counted from 1. 0 if there is none.
    """

    names: Sequence[str]
    reasons: npt.NDArray[np.uint8]

    def first_rows(self, name: str, most: int) -> list[int]:
        """Returns the rows of the first pairs with the reason `name`, in ascending order; at most `most` rows."""
        return np.flatnonzero(self.reasons == list(self.names).index(name) + 1)[:most].tolist()

    def count(self, first: int = 0, last: int | None = None) -> dict[str, int]:
        """Returns the number of pairs with each reason, by its name, from row `first` to before row `last`.

        If `last` is None, pairs are counted up to the end.
        """
        part = self.reasons[first:last]
        return {name: int(np.count_nonzero(part == number)) for number, name in enumerate(self.names, 1)}


@dataclass(frozen=True)
class Selection:
    """The pairs to train on.

    Args:
        kept: the rows of the pairs to train on, int64 `(kept,)` in ascending order.
        findings: the pairs with one of `CORPUS_PROBLEMS`.
        actions: `drop` or `keep`, by the name of the problem.
        filtered: the pairs that filters drop. It has no names and no reasons if there are no filters.
    """

    kept: np.ndarray
    findings: Findings
    actions: Mapping[str, str]
    filtered: Findings

    def split(self, parts: Sequence[Corpus]) -> list[np.ndarray]:
        """Returns for each part of the corpus the rows of its kept pairs. Rows count from the start of the corpus."""
        ends = np.cumsum([len(part) for part in parts])
        return np.split(self.kept, np.searchsorted(self.kept, ends)[:-1])


def select_training_pairs(
    training: Corpus,
    encoded: EncodedPairs,
    text_data: ShardData,
    *,
    longest: tuple[int, int],
    max_length_ratio: float | None,
    filters: TextFilters | None,
) -> Selection:
    """Selects the pairs to train on, and logs the number of pairs that are dropped or odd, by reason.

    `find_odd_pairs` says which pairs are odd.

    Args:
        training: all pairs.
        encoded: the same pairs, encoded.
        text_data: the data of the whole text, from `text.shards.read_pairs`.
        longest: the maximum numbers of tokens in a source and in a target, inclusive.
        max_length_ratio: the largest ratio of the lengths of the two sides, inclusive. None keeps pairs of any ratio.
        filters: the filters that the text was read with. Duplicates are dropped if `filters.duplicates` is True.
            None: no pair is filtered, and duplicates are kept.

    Raises:
        InputError: no pair is left.
    """
    kept_problems = {"length_ratio": max_length_ratio is None, "duplicate": not (filters and filters.duplicates)}
    actions = {reason: "keep" if kept_problems.get(reason) else "drop" for reason in CORPUS_PROBLEMS}
    findings = Findings(tuple(CORPUS_PROBLEMS), _find_reasons(encoded, text_data, longest, max_length_ratio))
    is_kept = np.array([True, *(actions[reason] == "keep" for reason in findings.names)])[findings.reasons]
    filtered = Findings((), np.zeros(0, np.uint8))
    if filters:
        reasons = np.where(is_kept, text_data.filtered, 0).astype(np.uint8)
        mark_near_duplicates(reasons, text_data.near_digests, is_kept)
        filtered = Findings(tuple(CORPUS_FILTERS), reasons)
        is_kept &= reasons == 0
    if not is_kept.any():
        raise InputError(f"{training.name}: no training pair is left; see data.max_* and data.filters in the config")
    for reason, count in findings.count().items():
        if count:
            log.info("%s: %d of the training pairs (%s)", reason, count, actions[reason])
    for reason, count in filtered.count().items():
        if count:
            log.info("%s: %d of the training pairs (data.filters)", reason, count)
    return Selection(_rows_of(is_kept), findings, actions, filtered)


def _find_reasons(
    encoded: EncodedPairs, text_data: ShardData, longest: tuple[int, int], max_length_ratio: float | None
) -> np.ndarray:
    """Returns the reasons of `find_odd_pairs` for a whole text, examined in chunks of `CHUNK_PAIRS`."""
    repeated = find_repeated(text_data.digests)
    reasons = ArrayStore(np.uint8)
    for first in range(0, len(repeated), CHUNK_PAIRS):
        part = slice(first, first + CHUNK_PAIRS)
        lengths = [np.diff(side.starts[first : first + CHUNK_PAIRS + 1]) for side in encoded.sides]
        reasons.add(find_odd_pairs(text_data.empty[part], repeated[part], lengths, longest, max_length_ratio))
    return reasons.finish()


def find_odd_pairs(
    empty: npt.NDArray[np.bool_],
    repeated: npt.NDArray[np.bool_],
    lengths: Sequence[npt.NDArray[np.integer]],
    longest: tuple[int, int],
    max_length_ratio: float | None,
) -> npt.NDArray[np.uint8]:
    """Finds pairs that rarely help training.

    - `empty_side`: a side has no visible character; see `text.lines.line.is_empty`.
    - `over_long`: a side has more tokens than its maximum.
    - `length_ratio`: the longer side has more than 10 tokens, and more than `max_length_ratio` times the tokens of the
      shorter side.
    - `duplicate`: an earlier pair is exactly the same.

    Args:
        empty: True for pairs with an empty side, bool `(pairs,)`; see `text.shards.find_empty`.
        repeated: True for pairs that equal an earlier pair, bool `(pairs,)`.
        lengths: the number of tokens of each source, int `(pairs,)`, and of each target.
        longest: the maximum number of tokens in a source and in a target, inclusive.
        max_length_ratio: the largest ratio, inclusive, at least 1; `NOTED_LENGTH_RATIO` if it is None.

    Returns:
        The reason of each pair, uint8 `(pairs,)`: the number of the first of `CORPUS_PROBLEMS` that applies, counted
        from 1. 0 if none applies.
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
    """Returns the rows at which a bool array is True, int64 in ascending order; many rows are in a temporary file."""
    store = ArrayStore(np.int64)
    for first in range(0, len(mask), CHUNK_PAIRS):
        store.add(np.flatnonzero(mask[first : first + CHUNK_PAIRS]) + first)
    return store.finish()


def draw_joined_pairs(
    kept_rows: np.ndarray,
    segmentations: Sequence[EncodedPairs],
    *,
    share: float,
    longest: tuple[int, int],
    seed: int | Sequence[int],
) -> np.ndarray:
    """Draws random pairs to be joined two by two.

    Args:
        kept_rows: the rows of the pairs to draw from, int `(kept,)`.
        segmentations: the encoded pairs in each segmentation.
        share: the number of draws, as a share of the kept pairs.
        longest: the maximum number of tokens of two joined sources and of two joined targets. Draws that are longer in
            any segmentation are dropped.
        seed: the seed or seeds of the draws.

    Returns:
        The rows `(first, second)` of each two joined pairs, int64 `(joined, 2)`.
    """
    count = len(kept_rows)
    pairs = kept_rows[np.random.default_rng(seed).integers(count, size=(round(share * count), 2))]
    fits = np.ones(len(pairs), bool)
    for segmentation in segmentations:
        for side, most in zip(segmentation.sides, longest, strict=True):
            fits &= side.lengths_of(pairs).sum(axis=1) <= most
    return pairs[fits]


def count_corpora(
    parts: Sequence[Corpus], tags: Sequence[str | None], selection: Selection, joined: Sequence[np.ndarray]
) -> Iterator[dict[str, Any]]:
    """Yields an entry of the corpus report for each corpus of a list, with its numbers of kept and joined pairs.

    Args:
        parts: the pairs of each corpus.
        tags: the tag of each corpus, or None.
        selection: the pairs to train on.
        joined: the rows of the joined pairs of each corpus, `(joined, 2)`.
    """
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
    """Adds two values to the entry of each corpus in the corpus report.

    `share` is its share of an epoch, from 0 to 1. `repeats` is the mean number of times that a pair is in an epoch.

    Args:
        corpora: the entries of `count_corpora`, which are changed.
        mixture: the mixture of the corpora; None if every pair comes once in an epoch.
    """
    total = sum(corpus["kept"] + corpus["joined"] for corpus in corpora)
    for number, corpus in enumerate(corpora):
        share_of_pairs = (corpus["kept"] + corpus["joined"]) / total
        corpus["share"] = round(mixture.shares[number] if mixture else share_of_pairs, 6)
        corpus["repeats"] = round(mixture.repeats[number] if mixture else 1.0, 4)


def describe_invisible(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns a phrase with the number of times that each invisible character occurs in the training text.

    The most frequent characters come first. The phrase is empty if there are no invisible characters.

    Args:
        counts: by side the number of each character by its code, such as U+00AD.
    """
    sides = []
    for side, counts_by_code in counts.items():
        if not counts_by_code:
            continue
        ordered = sorted(counts_by_code.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{code} ({count:,})" for code, count in ordered[:MOST_CODES])
        more = f" and {len(ordered) - MOST_CODES} more" if len(ordered) > MOST_CODES else ""
        sides.append(f"{side} {named}{more}")
    return "; ".join(sides)


def report_selection(training: Corpus, selection: Selection) -> dict[str, Any]:
    """Returns the part of the corpus report about the selection: a dict that JSON can hold.

    It has the numbers of all pairs and of kept pairs. Odd and filtered pairs are counted by reason, whether they are
    kept or dropped. The lines of the first `MOST_LINES` pairs of each reason are listed.

    Args:
        training: all pairs of the training text.
        selection: the pairs to train on.
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
            reason: [training.shown_line(row) for row in pairs.first_rows(reason, MOST_LINES)]
            for pairs in (findings, filtered)
            for reason in pairs.names
        },
        **({"filtered": filtered.count()} if filtered.names else {}),
    }

"""Finds the odd pairs of a corpus, selects those that are trained on, and counts what two corpora share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..config.names import CORPUS_ACTIONS, CORPUS_PROBLEMS
from ..errors import InputError
from .corpus import Corpus

_SHORT_TOKENS = 10  # up to here a ratio of lengths says nothing ("Go." and "Vas-y, pars !")


@dataclass(frozen=True)
class Finding:
    """An odd pair: the line of its file, from 1, and one of `CORPUS_PROBLEMS`."""

    line: int
    reason: str


@dataclass(frozen=True)
class Overlap:
    """The number of pairs, source sentences and target sentences of a corpus that the training text also contains."""

    pairs: int
    sources: int
    targets: int
    lines: list[int]
    """The lines, from 1, of the source sentences that the training text also contains."""


def find_odd_pairs(
    corpus: Corpus,
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    max_source_tokens: int,
    max_target_tokens: int,
    max_length_ratio: float,
) -> list[tuple[int, str]]:
    """Finds the pairs that rarely help training.

    - `empty_side`: a side is nothing but white space.
    - `over_long`: a side has more than its maximum of tokens.
    - `length_ratio`: the longer side, of more than 10 tokens, is more than `max_length_ratio` times the shorter.
    - `duplicate`: an earlier pair is exactly the same.

    Args:
        corpus: the pairs.
        source_lengths: int `(pairs,)`, in tokens.
        target_lengths: int `(pairs,)`, in tokens.
        max_source_tokens: inclusive.
        max_target_tokens: inclusive.
        max_length_ratio: inclusive, at least 1.

    Returns:
        `(index, reason)` in order of the index. Each odd pair is listed once, with the first of
        `CORPUS_PROBLEMS` that applies.
    """
    longer = np.maximum(source_lengths, target_lengths)
    shorter = np.minimum(source_lengths, target_lengths)
    is_empty = (not source.strip() or not target.strip() for source, target in corpus.pairs())
    applies = {
        "empty_side": np.fromiter(is_empty, bool, len(corpus)),
        "over_long": (source_lengths > max_source_tokens) | (target_lengths > max_target_tokens),
        "length_ratio": (longer > _SHORT_TOKENS) & (longer > max_length_ratio * np.maximum(shorter, 1)),
        "duplicate": _find_duplicates(corpus),
    }
    reasons = list(CORPUS_PROBLEMS)
    table = np.stack([applies[reason] for reason in reasons])
    return [(int(index), reasons[table[:, index].argmax()]) for index in np.flatnonzero(table.any(axis=0))]


def _find_duplicates(corpus: Corpus) -> npt.NDArray[np.bool_]:
    # 64 bits suffice: among 100 million pairs the chance that any two share a digest is 1 in 3,700.
    digests = (blake2b(f"{source}\n{target}".encode(), digest_size=8).digest() for source, target in corpus.pairs())
    numbers = np.fromiter((int.from_bytes(digest) for digest in digests), np.uint64, len(corpus))
    repeated = np.ones(len(corpus), bool)
    repeated[np.unique(numbers, return_index=True)[1]] = False
    return repeated


def locate_findings(corpus: Corpus, findings: Iterable[tuple[int, str]]) -> list[Finding]:
    """Replaces the index of each finding of `find_odd_pairs` by the line of the file, for reports."""
    return [Finding(corpus.line_numbers[index], reason) for index, reason in findings]


def select_pairs(
    corpus: Corpus, findings: Iterable[tuple[int, str]], actions: Mapping[str, str]
) -> npt.NDArray[np.intp]:
    """Selects the pairs to keep.

    Args:
        corpus: the pairs.
        findings: as `find_odd_pairs` returns them.
        actions: for each of `CORPUS_PROBLEMS`, one of `CORPUS_ACTIONS`.

    Returns:
        The indices of the pairs to keep, in order.

    Raises:
        InputError: a pair has a problem whose action is `error`; the message names the first such pair and the setting.
    """
    unknown = {reason: action for reason, action in actions.items() if action not in CORPUS_ACTIONS}
    if unknown:
        raise InputError(f"unknown actions {unknown}; expected one of {', '.join(CORPUS_ACTIONS)}")
    findings = list(findings)
    for index, reason in findings:
        if actions[reason] == "error":
            count = sum(other == reason for _, other in findings)
            raise InputError(
                f"{corpus.place(index)}: {reason.replace('_', ' ')}, the first of {count:,} of {len(corpus):,} pairs; "
                f"expected none, because data.on_{reason} is error; mend the text, or set data.on_{reason} to drop "
                "(leave such pairs out) or keep"
            )
    is_kept = np.ones(len(corpus), bool)
    is_kept[[index for index, reason in findings if actions[reason] == "drop"]] = False
    return np.flatnonzero(is_kept)


def count_overlap(training: Corpus, other: Corpus) -> Overlap:
    """Counts the lines of `other` that are also in `training`; scores on them would be too high."""
    other_sources, other_targets, other_pairs = set(other.source), set(other.target), set(other.pairs())
    sources, targets, pairs = set(), set(), set()
    for pair in training.pairs():  # once, since it is the longer one and is read from its file
        sources |= {pair[0]} & other_sources
        targets |= {pair[1]} & other_targets
        pairs |= {pair} & other_pairs
    lines = [line for line, source in zip(other.line_numbers, other.source, strict=True) if source in sources]
    return Overlap(
        pairs=sum(pair in pairs for pair in other.pairs()),
        sources=len(lines),
        targets=sum(target in targets for target in other.target),
        lines=lines,
    )

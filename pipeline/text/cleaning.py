"""What is odd in a corpus, which pairs stay, and what of it also stands in the training text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .corpus import Corpus

REASONS = ("empty_side", "over_long", "length_ratio", "duplicate")
_ACTIONS = ("drop", "keep", "error")
_JUDGED_FROM = 10  # tokens; the ratio of two short sentences says nothing ("Go." and "Vas-y, pars !")


@dataclass(frozen=True)
class Finding:
    """What is odd about the pair on a 1-based `line` of its file; `reason` is one of `REASONS`."""

    line: int
    reason: str


@dataclass(frozen=True)
class Overlap:
    """How many pairs, source sentences and target sentences of one corpus also stand in the training text."""

    pairs: int
    sources: int
    targets: int
    lines: list[int]
    """The 1-based lines whose source sentence does, so `sources` of them."""


def examine(
    corpus: Corpus,
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    max_source_tokens: int,
    max_target_tokens: int,
    max_length_ratio: float,
) -> list[tuple[int, str]]:
    """Finds pairs that rarely help training.

    - `empty_side`: one side has nothing but white space.
    - `over_long`: a side has more than its maximum of tokens.
    - `length_ratio`: the longer side, of more than 10 tokens, is more than `max_length_ratio` times the shorter.
    - `duplicate`: exactly this pair came before.

    Args:
        corpus: the pairs.
        source_lengths: one length for each pair, in tokens.
        target_lengths: likewise.
        max_source_tokens: inclusive.
        max_target_tokens: inclusive.
        max_length_ratio: inclusive, at least 1.

    Returns:
        `(index, reason)` in order of the index; a pair is named once, for the first in `REASONS` that holds.
    """
    longer = np.maximum(source_lengths, target_lengths)
    shorter = np.minimum(source_lengths, target_lengths)
    empty = (not source.strip() or not target.strip() for source, target in corpus.pairs())
    tests = {
        "empty_side": np.fromiter(empty, bool, len(corpus)),
        "over_long": (source_lengths > max_source_tokens) | (target_lengths > max_target_tokens),
        "length_ratio": (longer > _JUDGED_FROM) & (longer > max_length_ratio * np.maximum(shorter, 1)),
        "duplicate": _came_before(corpus),
    }
    holds = np.stack([tests[reason] for reason in REASONS])
    return [(int(index), REASONS[holds[:, index].argmax()]) for index in np.flatnonzero(holds.any(axis=0))]


def _came_before(corpus: Corpus) -> npt.NDArray[np.bool_]:
    """Of each pair whether exactly this one came before, by digests of 64 bits, of which two hardly ever agree."""
    digests = (blake2b(f"{source}\n{target}".encode(), digest_size=8).digest() for source, target in corpus.pairs())
    numbers = np.fromiter((int.from_bytes(digest) for digest in digests), np.uint64, len(corpus))
    repeated = np.ones(len(corpus), bool)
    repeated[np.unique(numbers, return_index=True)[1]] = False
    return repeated


def locate(corpus: Corpus, findings: Iterable[tuple[int, str]]) -> list[Finding]:
    """Gives what `examine` found the line numbers of the file, for a report to people."""
    return [Finding(corpus.line_numbers[index], reason) for index, reason in findings]


def select(corpus: Corpus, findings: Iterable[tuple[int, str]], actions: Mapping[str, str]) -> npt.NDArray[np.intp]:
    """Decides which pairs stay.

    Args:
        corpus: the pairs.
        findings: of `examine`.
        actions: for each of `REASONS`, `drop`, `keep` or `error`.

    Returns:
        The kept indices in order.

    Raises:
        InputError: something was found whose action is `error`; the message names the first place and the setting.
    """
    unknown = {reason: action for reason, action in actions.items() if action not in _ACTIONS}
    if unknown:
        raise InputError(f"unknown actions {unknown}; expected one of {', '.join(_ACTIONS)}.")
    findings = list(findings)
    for index, reason in findings:
        if actions[reason] == "error":
            count = sum(other == reason for _, other in findings)
            raise InputError(
                f"{corpus.place(index)}: {reason.replace('_', ' ')}, the first of {count:,} of {len(corpus):,} pairs; "
                f"expected none, because data.on_{reason} is error. Mend the text, or set data.on_{reason} to drop "
                "(leave such pairs out) or keep."
            )
    stays = np.ones(len(corpus), bool)
    stays[[index for index, reason in findings if actions[reason] == "drop"]] = False
    return np.flatnonzero(stays)


def overlap(training: Corpus, other: Corpus) -> Overlap:
    """Counts, line by line, what of `other` also stands in `training`, where scores on it would flatter."""
    other_sources, other_targets, other_pairs = set(other.source), set(other.target), set(other.pairs())
    sources, targets, pairs = set(), set(), set()
    for pair in training.pairs():  # once: it is the long one, read from its file
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

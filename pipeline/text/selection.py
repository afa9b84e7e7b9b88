"""Which pairs are trained on: odd ones and those of filters are left out, others are joined, and each corpus has its
place among the pairs that a run keeps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..config.names import CORPUS_FILTERS, CORPUS_PROBLEMS
from ..errors import InputError
from ..json_file import read_json_object
from ..run_directory import RunDirectory
from .cleaning import Findings, find_odd_pairs, select_pairs
from .corpus import Corpus
from .corpus_report import report_findings
from .encoded_pairs import EncodedPairs
from .filters import with_near_duplicates
from .joined_pairs import draw_joined_pairs
from .mixture import Mixture, corpus_shares
from .put_tags import put_tags
from .readings import TextFacts
from .repeated import find_repeated
from .sentence_pairs import JoinedCorpora
from .stored_array import ArrayStore

CHUNK_PAIRS = 1 << 20


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
        InputError: they forbid a pair, or let none pass.
    """
    actions = {reason: getattr(data, f"on_{reason}") for reason in CORPUS_PROBLEMS}
    findings = Findings(tuple(CORPUS_PROBLEMS), _find_reasons(data, encoded, facts))
    is_kept = select_pairs(training, findings, actions)
    filtered = Findings((), np.zeros(0, np.uint8))
    if data.filters is not None:
        reasons = np.where(is_kept, facts.filtered, 0).astype(np.uint8)
        with_near_duplicates(reasons, facts.near_digests, is_kept)
        filtered = Findings(tuple(CORPUS_FILTERS), reasons)
        is_kept &= reasons == 0
    if not is_kept.any():
        raise InputError(
            f"{training.name}: no training pair is left; see data.on_*, data.max_* and data.filters in the config"
        )
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
    if len(corpora) == 1 or not (config.data.tags or _is_weighted(config.data)):
        nothing = np.zeros((0, 2), np.int64)
        return [draw(selection.kept, seed=seed), *[nothing] * (len(corpora) - 1)]
    return [draw(kept, seed=[seed, number]) for number, kept in enumerate(corpora)]


def report_joined(data: DataSettings, report: dict[str, Any], joined: Sequence[np.ndarray]) -> None:
    """Adds to the report how many pairs are joined, and the shares of the corpora of a list."""
    report["joined"] = sum(map(len, joined))
    if "corpora" in report:
        for corpus, drawn in zip(report["corpora"], joined, strict=True):
            corpus["joined"] = len(drawn)
        mixture = make_mixture(data, report, 0)
        total = sum(corpus["kept"] + corpus["joined"] for corpus in report["corpora"])
        for number, corpus in enumerate(report["corpora"]):
            own = (corpus["kept"] + corpus["joined"]) / total
            corpus["share"] = round(mixture.shares[number] if mixture else own, 6)
            corpus["repeats"] = round(mixture.repeats[number] if mixture else 1.0, 4)


def tag_pairs(
    data: DataSettings, report: Mapping[str, Any], ids: Mapping[str, int], pairs: EncodedPairs
) -> EncodedPairs:
    """Puts the tags of the corpora before the sources of the kept pairs and of the joined ones behind them."""
    if not data.tags:
        return pairs
    tags = [None if corpus.tag is None else ids[corpus.tag] for corpus in data.listed_corpora]
    ranges = _ranges(report)
    return put_tags(pairs, [(*ranges[n][part], tag) for part in (0, 1) for n, tag in enumerate(tags)])


def make_mixture(data: DataSettings, report: Mapping[str, Any], seed: int) -> Mixture | None:
    """Makes what divides epochs among the corpora of a list; None where every pair comes once.

    Args:
        data: the settings.
        report: `corpus_report.json`, which knows how many pairs of each corpus are kept and joined.
        seed: of the run.

    Raises:
        InputError: nothing is left of a corpus that has a weight.
    """
    if not _is_weighted(data):
        return None
    ranges = _ranges(report)
    sizes = [sum(last - first for first, last in own) for own in ranges]
    weights = [corpus.weight for corpus in data.listed_corpora if corpus.weight is not None]
    for number, corpus in enumerate(report["corpora"]):
        if not sizes[number] and weights and weights[number]:
            raise InputError(
                f"{corpus['files']}: no pair of this corpus is left, and its weight is not 0; expected some, or "
                "weight: 0; see data.on_*, data.max_* and data.filters in the config"
            )
    return Mixture(ranges, corpus_shares(sizes, weights or None, data.temperature), seed)


def read_mixture(config: RunConfig, run: RunDirectory, pairs: int) -> Mixture | None:
    """Makes the mixture of a prepared run, see `make_mixture`.

    Args:
        config: the settings.
        run: the run, whose report says how many pairs each corpus has.
        pairs: how many are encoded.

    Raises:
        InputError: the report is damaged, or of other pairs.
    """
    if not _is_weighted(config.data):
        return None
    try:
        report = read_json_object(run.corpus_report)
        mixture = make_mixture(config.data, report, config.run.seed)
        found = sum(one["kept"] + one["joined"] for one in report["corpora"])
        if found != pairs or len(report["corpora"]) != len(config.data.listed_corpora):
            raise ValueError(f"{found:,} pairs in {len(report['corpora'])} corpora, and {pairs:,} are encoded")
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"{run.corpus_report}: damaged, or of another run ({error}); restore it, or train anew in another folder"
        ) from None
    return mixture


def _is_weighted(data: DataSettings) -> bool:
    weighted = any(corpus.weight is not None for corpus in data.listed_corpora)
    return len(data.listed_corpora) > 1 and (weighted or data.temperature is not None)


def _ranges(report: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """Returns where the kept and the joined pairs of each corpus are."""
    ends = np.cumsum([0, *(corpus[key] for key in ("kept", "joined") for corpus in report["corpora"])]).tolist()
    parts = list(pairwise(ends))
    count = len(report["corpora"])
    return [[parts[number], parts[count + number]] for number in range(count)]


def _find_reasons(data: DataSettings, encoded: EncodedPairs, facts: TextFacts) -> np.ndarray:
    repeated, parts = find_repeated(facts.digests), [np.zeros(0, np.uint8)]
    for first in range(0, len(repeated), CHUNK_PAIRS):
        part = slice(first, first + CHUNK_PAIRS)
        lengths = (np.diff(side.starts[first : first + CHUNK_PAIRS + 1]) for side in encoded.sides)
        parts.append(
            find_odd_pairs(
                facts.empty[part],
                repeated[part],
                *lengths,
                max_source_tokens=data.max_source_tokens,
                max_target_tokens=data.max_target_tokens,
                max_length_ratio=data.max_length_ratio,
            )
        )
    return np.concatenate(parts)


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
        rows = slice(first, last)
        report = {"files": part.name, "pairs": last - first, "kept": int(is_kept[rows].sum()), "joined": 0}
        report |= {"tag": settings.tag, "found": findings.count(rows)}
        yield report | ({"filtered": filtered.count(rows)} if filtered.names else {})

"""The corpora of a list among the pairs that a run keeps: their tags, and their shares of an epoch."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..errors import InputError
from ..files.json import read_json_object
from ..files.run_directory import RunDirectory
from .encoded_pairs import EncodedPairs
from .mixture import Mixture, corpus_shares
from .put_tags import put_tags


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
    if not is_weighted(data):
        return None
    ranges = _ranges(report)
    sizes = [sum(last - first for first, last in own) for own in ranges]
    weights = [corpus.weight for corpus in data.listed_corpora if corpus.weight is not None]
    for number, corpus in enumerate(report["corpora"]):
        if not sizes[number] and weights and weights[number]:
            raise InputError(
                f"{corpus['files']}: no pair of this corpus is left, and its weight is not 0; expected some, or "
                "weight: 0; see data.max_* and data.filters in the config"
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
    if not is_weighted(config.data):
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


def is_weighted(data: DataSettings) -> bool:
    """Returns whether the corpora of a list have shares other than their sizes."""
    weighted = any(corpus.weight is not None for corpus in data.listed_corpora)
    return len(data.listed_corpora) > 1 and (weighted or data.temperature is not None)


def _ranges(report: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """Returns where the kept and the joined pairs of each corpus are."""
    ends = np.cumsum([0, *(corpus[key] for key in ("kept", "joined") for corpus in report["corpora"])]).tolist()
    parts = list(pairwise(ends))
    count = len(report["corpora"])
    return [[parts[number], parts[count + number]] for number in range(count)]

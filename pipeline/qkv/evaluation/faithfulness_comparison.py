"""The faithfulness of several runs side by side, and how alike they order the scorers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import InputError
from ..inspection.experiments.faithfulness import KEYS, MEAN, MEASURES, SUMS, Scorer, sums_of_sentences
from ..inspection.matched_heads import MatchedHeads
from ..statistics.resampling import interval, ratio, resample, sentence_counts
from .systems import System, match_to_first

NAMES = list(Scorer._fields)


def read_faithfulness(path: Path) -> pd.DataFrame:
    """Reads faithfulness_sentences.csv; layers and heads become numbers again where they are.

    Raises:
        InputError: the file is damaged.
    """
    text = dict.fromkeys([*NAMES, "removal"], str)
    numbers = ["id", "share", "tokens", *SUMS]
    try:
        table = pd.read_csv(path, dtype=text, keep_default_na=False, na_values={name: [""] for name in numbers})
        table = table.astype(dict.fromkeys(numbers, float)).astype({"id": int})
        for name in NAMES[1:]:
            table[name] = [int(value) if value.isdecimal() else value for value in table[name]]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read: {error}; evaluate the run again with --faithfulness") from None
    return table[["id", *KEYS, "tokens", *SUMS]]


def compare_faithfulness(systems: Sequence[System], samples: int) -> list[str]:
    """Compares what `evaluate.py --faithfulness` has measured of each system, on the sentences that all have.

    Returns:
        A table of comprehensiveness and sufficiency with 95 % intervals, with the heads of each system matched to those
        of the first; and for each other system a line with Kendall's tau between its order of the scorers and the first
        one's, with the interval over sentences. Nothing if a system has not been measured.

    Raises:
        InputError: a file is damaged.
    """
    files = [system.evaluation.faithfulness_sentences for system in systems]
    if not all(file.is_file() for file in files):
        return []
    tables = [read_faithfulness(file) for file in files]
    common = set.intersection(*(set(table["id"]) for table in tables))
    matches = [None, *match_to_first(systems)]
    tables = [_renumbered(table[table["id"].isin(common)], match) for table, match in zip(tables, matches, strict=True)]
    if not common or any(table.empty for table in tables):
        return []
    drawn = [_values(table, samples) for table in tables]
    first, *others = drawn
    columns = {system.name: _as_text(one) for system, one in zip(systems, drawn, strict=True)}
    shown = pd.DataFrame(
        {name: [column.get(scorer, "") for scorer in _sorted(first)] for name, column in columns.items()},
        [str(scorer) for scorer in _sorted(first)],
    )
    title = (
        f"faithfulness on {len(common)} sentences: comprehensiveness, sufficiency, each with its 95 % interval; "
        "heads are numbered as in the first"
    )
    lines = [
        _stability(system.name, systems[0].name, first, other, match)
        for system, other, match in zip(systems[1:], others, matches[1:], strict=True)
    ]
    return [f"{title}\n\n{shown.to_string()}", *lines]


Values = dict[Scorer, tuple[np.ndarray, np.ndarray]]
"""Of each scorer the means of `MEASURES`, `(2,)`, and those of the bootstrap samples, `(B, 2)`."""


def _values(table: pd.DataFrame, samples: int) -> Values:
    keys, sums, tokens = sums_of_sentences(table)
    rows = keys.index[keys["removal"] == "mean"]
    above = sums[:, rows, : len(MEASURES)]
    below = np.repeat(tokens[:, rows, None], len(MEASURES), axis=-1)
    drawn = resample(above, below, sentence_counts(len(sums), samples=samples))
    scorers = [Scorer(*row) for row in keys.loc[rows, NAMES].itertuples(index=False)]
    return dict(zip(scorers, zip(ratio(above, below), np.moveaxis(drawn, 1, 0), strict=True), strict=True))


def _as_text(values: Values) -> dict[Scorer, str]:
    shown = {}
    for scorer, (value, drawn) in values.items():
        ends = zip(value, *interval(drawn), strict=True)
        shown[scorer] = "  ".join(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in ends)
    return shown


def _sorted(values: Values) -> list[Scorer]:
    return sorted(values, key=lambda scorer: -values[scorer][0][0])


def _stability(name: str, first_name: str, first: Values, other: Values, match: MatchedHeads | None) -> str:
    """Returns the line of one system. Without matched heads, what has no heads is compared."""
    scorers = [scorer for scorer in first if scorer in other and (match or scorer.head in ("", MEAN))]
    middle, drawn = (
        [np.stack([values[scorer][part][..., 0] for scorer in scorers], axis=-1) for values in (first, other)]
        for part in (0, 1)
    )
    low, high = interval(kendall(*drawn))
    heads = "heads are left out, for they cannot be matched: no target is the same; evaluate with --forced"
    if match is not None:
        heads = f"heads matched on {match.sentences} sentences, where {match.overlap:.0%} of their weights overlap"
    return (
        f"{name} orders {len(scorers)} scorers as {first_name} does: Kendall's tau {kendall(*middle):.2f} "
        f"({low:.2f} to {high:.2f}); {heads}"
    )


def _renumbered(table: pd.DataFrame, match: MatchedHeads | None) -> pd.DataFrame:
    """Returns the rows with the numbers that the first system gives to the heads."""
    if match is None:
        return table
    numbers = {
        (layer, int(head)): number for layer, heads in enumerate(match.heads) for number, head in enumerate(heads)
    }
    heads = [numbers.get(key, key[1]) for key in zip(table["layer"], table["head"], strict=True)]
    return table.assign(head=pd.Series(heads, table.index, dtype=object))


def kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes Kendall's tau-b over the last axis (Kendall 1945): of all pairs, the share that both order alike less
    the share that they order differently, corrected for ties; from -1 to 1, not-a-number if one of them orders nothing.

    Args:
        x: `(..., n)`.
        y: `(..., n)`.

    Returns:
        `(...)`.
    """
    signs = [np.sign(values[..., :, None] - values[..., None, :]) for values in (x, y)]
    alike = (signs[0] * signs[1]).sum(axis=(-2, -1))
    ordered = [np.abs(sign).sum(axis=(-2, -1)) for sign in signs]
    below = np.sqrt(ordered[0] * ordered[1])
    return np.divide(alike, below, out=np.full(np.shape(alike), np.nan), where=below > 0)

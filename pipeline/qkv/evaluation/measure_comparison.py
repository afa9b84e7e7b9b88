"""All measures of evaluations side by side, as sums over sentences, so that each has intervals and tests: of each
evaluation, of each head, over seeds; and how faithful attention is.

Letters: N sentences, B samples, P heads or changes of heads.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..alignment.error_rate import LINK_COUNTS, error_terms
from ..errors import InputError
from ..files.run_directory import EvaluationDirectory
from ..inspection.experiments.faithfulness import FAITHFULNESS_MEASURES as DROPS
from ..inspection.experiments.faithfulness import MEAN, SUMS, Scorer, sums_of_sentences
from ..inspection.experiments.head_effects import EFFECTS, exchanges_for
from ..inspection.matched_heads import MatchedHeads
from ..inspection.measures import MEASURES
from ..metrics.bleu import CorpusScore
from ..statistics.resampling import draw_over_seeds, interval, p_of_samples, ratio, resample, sentence_counts
from ..statistics.significance import holm, randomisation_p
from .systems import EvaluatedArchive, match_to_first
from .tables import read_table


def compare_measures(
    systems: Sequence[EvaluatedArchive], scores: Sequence[Mapping[str, CorpusScore]], samples: int
) -> list[str]:
    """Compares what is kept of each sentence: scores (BLEU and chrF, none where targets were given), error rates, and
    means over all heads of what is measured of them.

    Returns:
        A table with the 95 % interval of each number over sentences, and its p against the first; nothing if no heads
        are measured.

    Raises:
        InputError: a file is damaged.
    """
    if not any(heads_of(system.evaluation) for system in systems):
        return []
    first, *others = (measures_of(system, own) for system, own in zip(systems, scores, strict=True))
    columns: list[Column] = []
    for system, own in zip(systems, (first, *others), strict=True):
        texts = {name: _as_text(one.value, one.draw(samples)) for name, one in own.items()}
        tested = [] if own is first else [name for name in own if name in first]
        columns.append((system.name, texts, {name: own[name].p_against(first[name], samples) for name in tested}))
    title = (
        "all measures, with 95 % intervals over sentences; p against the first by approximate randomisation; "
        "measures of heads are means over all heads"
    )
    return [_block(title, columns)]


def compare_heads(
    systems: Sequence[EvaluatedArchive], matches: Sequence[MatchedHeads | None], samples: int
) -> list[str]:
    """Compares what is measured of each head.

    Args:
        systems: the evaluations.
        matches: the heads of each but the first, in the place of the first one's; None where they cannot be matched,
            and then the heads are not compared.
        samples: of the tests, more where many heads are compared.

    Returns:
        A table for each measure, with 95 % intervals over sentences, and p against the first, corrected for all heads
        of that measure (Holm 1979).

    Raises:
        InputError: a file is damaged.
    """
    found = [heads_of(system.evaluation) for system in systems]
    for number, match in enumerate(matches, 1):
        found[number] = {name: one.renumbered(match) for name, one in found[number].items()} if match else {}
    blocks = []
    for name, first in found[0].items():
        heads = [f"layer {layer} head {head}" for layer, head in first.heads]
        columns: list[Column] = []
        for system, own in zip(systems, found, strict=True):
            if name in own and own[name].heads == first.heads:
                texts = dict(zip(heads, map(_as_text, own[name].value, own[name].draw(samples).T), strict=True))
                p = holm(own[name].p_against(first, max(samples, exchanges_for(len(heads)))))
                columns.append((system.name, texts, dict(zip(heads, p, strict=True))))
        blocks.append(_block(name, columns))
    lines = [
        f"{system.name}: its heads are left out, for they cannot be matched with the first one's: other layers or "
        "heads, or no target is the same; evaluate with --forced"
        for system, match in zip(systems[1:], matches, strict=True)
        if match is None
    ]
    if not blocks:
        return ["no measures of single heads: sentence_heads.csv is missing; evaluate again", *lines]
    title = (
        "each layer and head, numbered as in the first, with 95 % intervals over sentences; p against the first, "
        "corrected for all heads of a table (Holm)"
    )
    return [title, *blocks, *lines]


def compare_seeds(
    groups: Sequence[tuple[str, Sequence[int]]],
    systems: Sequence[EvaluatedArchive],
    scores: Sequence[Mapping[str, CorpusScore]],
    samples: int,
) -> list[str]:
    """Compares ways to train, of which some have several seeds.

    Args:
        groups: the name of each, and the numbers of its systems, one for each seed.
        systems, scores, samples: as for `compare_measures`.

    Returns:
        A table of the means over seeds with 95 % intervals over seeds and sentences, and p against the first; nothing
        if no way to train has several seeds.
    """
    if all(len(members) < 2 for _, members in groups):
        return []
    columns: list[Column] = []
    first: dict[str, np.ndarray] = {}
    for number, (name, members) in enumerate(groups):
        found = [measures_of(systems[member], scores[member]) for member in members]
        drawn, texts = {}, {}
        for one in (one for one in found[0] if all(one in own for own in found)):
            values = np.array([own[one].value for own in found])
            samples_of = [own[one].draw(samples) for own in found]
            fixed = [np.full(samples, x) if own is None else own for own, x in zip(samples_of, values, strict=True)]
            drawn[one] = draw_over_seeds(np.stack(fixed), values, seed=number)
            texts[one] = _as_text(float(values.mean()), drawn[one])
        first = first or drawn
        p = {one: p_of_samples(of_one - first[one]) for one, of_one in drawn.items() if one in first}
        columns.append((f"{name} ({len(members)})", texts, p))
    title = (
        "means over seeds (their number), with 95 % intervals over seeds and sentences; one seed has an interval over "
        "sentences alone"
    )
    return [_block(title, columns)]


Column = tuple[str, dict[str, str], dict[str, float]]
"""A column of a table: its heading, the text of each row, and p of each row where it was tested."""


def _block(title: str, columns: Sequence[Column]) -> str:
    """Returns a table under its title. After each column but the first stands its p."""
    names = list(dict.fromkeys(name for _, texts, _ in columns for name in texts))
    table = pd.DataFrame(index=names)
    for heading, texts, p in columns:
        shown = {name: "" if np.isnan(value) else f"{value:.3f}" for name, value in p.items()}
        for place, cells in ((heading, texts), ("p", shown))[: 2 if len(table.columns) else 1]:
            column = pd.Series(cells, names, dtype=object).fillna("")
            table.insert(len(table.columns), place, column, allow_duplicates=True)
    return f"{title}\n\n{table.to_string()}"


def _as_text(value: float, drawn: np.ndarray | None) -> str:
    if np.isnan(value):
        return ""
    if drawn is None:
        return f"{value:.3f}"
    low, high = interval(drawn)
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


class RatioMeasure(NamedTuple):
    """A measure that is a ratio of sums over sentences, of an evaluation or of each of its heads; see `CorpusScore`.

    - above, below: numerators and denominators of each sentence, `(N,)`, or `(N, P)` of heads.
    - unit: what the ratio is multiplied by.
    - heads: (layer, head) of each of P.
    """

    above: np.ndarray
    below: np.ndarray
    unit: float = 1.0
    heads: Sequence[tuple[int, int]] = ()

    @property
    def value(self) -> Any:
        return self.unit * ratio(self.above, self.below)

    def draw(self, samples: int) -> Any:
        """Returns the measure of drawn sentences, `(B,)` or `(B, P)`, the same ones for all measures of as many."""
        return self.unit * resample(self.above, self.below, sentence_counts(len(self.above), samples=samples))

    def p_against(self, first: "RatioMeasure", samples: int) -> Any:
        """Returns the two-sided p-values of being equal, by approximate randomisation; not-a-number if untested."""
        if first is self or first.above.shape != self.above.shape:
            return np.full(self.above.shape[1:], np.nan)
        return randomisation_p(first[:2], self[:2], samples=samples)

    def mean(self) -> "RatioMeasure":
        """Returns the mean over all heads of all layers."""
        return RatioMeasure(self.above.sum(axis=1), self.below.sum(axis=1))

    def renumbered(self, match: MatchedHeads) -> "RatioMeasure":
        """Puts the heads into the places of the first system's."""
        order = [self.heads.index((layer, int(match.heads[layer, head]))) for layer, head in self.heads]
        return self._replace(above=self.above[:, order], below=self.below[:, order])


class FixedMeasure(NamedTuple):
    """A measure of a model's weights, without any sentence; see `RatioMeasure`."""

    value: float

    def draw(self, samples: int) -> None:
        return None

    def p_against(self, first: Any, samples: int) -> float:
        return np.nan


EFFECT = EFFECTS[0]


def heads_of(evaluation: EvaluationDirectory) -> dict[str, RatioMeasure]:
    """Reads what is measured of each head and kept of each sentence: `MEASURES`, and `loss_change CHANGE` where heads
    were replaced; what is not there is left out.

    Raises:
        InputError: a file is damaged.
    """
    found = {}
    places = dict.fromkeys(("id", "layer", "head"), int)
    if evaluation.sentence_heads.is_file():
        table = read_table(evaluation.sentence_heads, places | {"rows": float}, optional=MEASURES)
        found = {name: _measure_of_heads(table, "rows", name) for name in MEASURES if name in table}
    if evaluation.perturbation_sentences.is_file():
        table = read_table(evaluation.perturbation_sentences, places | {"tokens": float, EFFECT: float, "change": str})
        for change, rows in table.groupby("change", sort=False):
            found[f"{EFFECT} {change}"] = _measure_of_heads(rows, "tokens", EFFECT)
    return {name: one for name, one in found.items() if one.below.any() and not np.isnan(one.above).any()}


def _measure_of_heads(table: pd.DataFrame, weight: str, name: str) -> RatioMeasure:
    rows = table.sort_values(["id", "layer", "head"], kind="stable")
    heads = list(dict.fromkeys(zip(rows["layer"], rows["head"], strict=True)))
    if len(rows) != rows["id"].nunique() * len(heads):
        raise InputError(f"{name}: expected a row for each sentence, layer and head, found others; evaluate again")
    below, values = (rows[column].to_numpy(float).reshape(-1, len(heads)) for column in (weight, name))
    return RatioMeasure(np.where(below > 0, values, 0.0) * below, below, heads=heads)


def measures_of(system: EvaluatedArchive, scores: Mapping[str, CorpusScore]) -> dict[str, Any]:
    """Returns all measures of an evaluation by name, its scores first, each a `CorpusScore`, a `RatioMeasure` or a
    `FixedMeasure`; measures of heads are means over the heads.

    Raises:
        InputError: a file is damaged.
    """
    found: dict[str, Any] = dict(scores)
    counts = read_counts(system)
    if counts is not None:
        found["AER"] = RatioMeasure(*error_terms(counts), unit=100.0)
    found |= {name: measure.mean() for name, measure in heads_of(system.evaluation).items()}
    if system.evaluation.spectra.is_file():
        ranks = read_table(system.evaluation.spectra, {"effective_rank": float})["effective_rank"]
        found["effective_rank"] = FixedMeasure(float(ranks.mean()))
    return found


def read_counts(system: EvaluatedArchive) -> np.ndarray | None:
    """Returns `(N, 4)`, the counts of each sentence at the chosen layer and head; None where none are kept."""
    readout = system.metrics.get("alignment")
    path = system.evaluation.sentence_alignment
    if not readout or not path.is_file():
        return None
    columns = dict.fromkeys(("id", "layer", *LINK_COUNTS), int) | {"head": str}
    table = read_table(path, columns, dtype={"head": str})
    chosen = table[(table["layer"] == readout.get("layer")) & (table["head"] == str(readout.get("head")))]
    counts = chosen[list(LINK_COUNTS)].to_numpy(float)
    if len(counts) != readout.get("sentences"):
        raise InputError(f"{path}: expected {readout.get('sentences')} sentences, found {len(counts)}; evaluate again")
    return counts


SCORER_NAMES = list(Scorer._fields)


def read_faithfulness(path: Path) -> pd.DataFrame:
    """Reads faithfulness_sentences.csv, layers and heads as text.

    Raises:
        InputError: the file is damaged.
    """
    text = dict.fromkeys([*SCORER_NAMES, "removal"], str)
    numbers: dict[str, type] = {"id": int, **dict.fromkeys(["share", "tokens", *SUMS], float)}
    missing = {name: [""] for name in numbers}
    return read_table(path, text | numbers, dtype=text, keep_default_na=False, na_values=missing)


def compare_faithfulness(systems: Sequence[EvaluatedArchive], samples: int) -> list[str]:
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
    if not common:
        return []
    matches = [None, *match_to_first(systems)]
    drawn = [
        _drops_of_scorers(_renumber_rows(table[table["id"].isin(common)], match), samples)
        for table, match in zip(tables, matches, strict=True)
    ]
    first = drawn[0]
    order = sorted(first, key=lambda scorer: -first[scorer][0][0])
    texts = {}
    for system, own in zip(systems, drawn, strict=True):
        cells = {scorer: "  ".join(map(_as_text, means, samples_of.T)) for scorer, (means, samples_of) in own.items()}
        texts[system.name] = [cells.get(scorer, "") for scorer in order]
    title = (
        f"faithfulness on {len(common)} sentences: comprehensiveness, sufficiency, each with its 95 % interval; "
        "heads are numbered as in the first"
    )
    lines = [
        f"{system.name} orders {_stability(systems[0].name, first, own, match)}"
        for system, own, match in zip(systems[1:], drawn[1:], matches[1:], strict=True)
    ]
    return [f"{title}\n\n{pd.DataFrame(texts, list(map(str, order))).to_string()}", *lines]


Drops = dict[Scorer, tuple[np.ndarray, np.ndarray]]
"""The means of `DROPS` of each scorer, `(2,)`, and the means of the bootstrap samples, `(B, 2)`."""


def _drops_of_scorers(table: pd.DataFrame, samples: int) -> Drops:
    keys, sums, tokens = sums_of_sentences(table)
    rows = keys.index[keys["removal"] == "mean"]
    above = sums[:, rows, : len(DROPS)]
    below = np.repeat(tokens[:, rows, None], len(DROPS), axis=-1)
    drawn = resample(above, below, sentence_counts(len(sums), samples=samples))
    scorers = [Scorer(*row) for row in keys.loc[rows, SCORER_NAMES].itertuples(index=False)]
    return dict(zip(scorers, zip(ratio(above, below), np.moveaxis(drawn, 1, 0), strict=True), strict=True))


def _stability(first_name: str, first: Drops, other: Drops, match: MatchedHeads | None) -> str:
    """Returns the end of a system's line. Without matched heads, what has no heads is compared."""
    scorers = [scorer for scorer in first if scorer in other and (match or scorer.head in ("", MEAN))]
    middle, drawn = (
        [np.stack([values[scorer][part][..., 0] for scorer in scorers], axis=-1) for values in (first, other)]
        for part in (0, 1)
    )
    low, high = interval(kendall(*drawn))
    heads = "heads are left out, for they cannot be matched: no target is the same; evaluate with --forced"
    if match is not None:
        heads = f"heads matched on {match.sentences} sentences, where {match.overlap:.0%} of their weights overlap"
    tau = f"{kendall(*middle):.2f} ({low:.2f} to {high:.2f})"
    return f"{len(scorers)} scorers as {first_name} does: Kendall's tau {tau}; {heads}"


def _renumber_rows(table: pd.DataFrame, match: MatchedHeads | None) -> pd.DataFrame:
    """Returns the rows with the numbers that the first system gives to the heads."""
    if match is None:
        return table
    numbers = {(f"{layer}", f"{head}"): f"{number}" for (layer, number), head in np.ndenumerate(match.heads)}
    return table.assign(head=[numbers.get(key, key[1]) for key in zip(table["layer"], table["head"], strict=True)])


def kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes Kendall's tau-b over the last axis (Kendall 1945): of all pairs, the share that both order alike less
    the share that they order differently, corrected for ties; from -1 to 1, not-a-number if one of them orders nothing:
    `(..., n)` and `(..., n)` to `(...)`."""
    signs = [np.sign(values[..., :, None] - values[..., None, :]) for values in (x, y)]
    alike = (signs[0] * signs[1]).sum(axis=(-2, -1))
    ordered = [np.abs(sign).sum(axis=(-2, -1)) for sign in signs]
    below = np.sqrt(ordered[0] * ordered[1])
    return np.divide(alike, below, out=np.full(np.shape(alike), np.nan), where=below > 0)

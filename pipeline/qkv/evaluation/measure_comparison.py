"""All measures of evaluations side by side, as sums over sentences, so that each has intervals and tests: of each
evaluation, of each head, over seeds; and how faithful attention is.

Letters: N sentences, B samples, P heads or changes of heads.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..alignment.error_rate import LINK_COUNTS, error_terms
from ..errors import InputError
from ..files.run_directory import EvaluationDirectory
from ..inspection.experiments.faithfulness import KEYS, MEAN, SUMS, Scorer, sums_of_sentences
from ..inspection.experiments.faithfulness import MEASURES as DROPS
from ..inspection.experiments.head_effects import EFFECTS, samples_for
from ..inspection.matched_heads import MatchedHeads
from ..inspection.measures import MEASURES
from ..metrics.bleu import CorpusScore
from ..statistics.resampling import (
    draw_over_seeds,
    interval,
    p_of_samples,
    ratio,
    ratio_interval,
    resample,
    sentence_counts,
)
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
    found = [measures_of(system, own) for system, own in zip(systems, scores, strict=True)]
    columns: list[tuple[str, dict[str, str]]] = []
    for system, own in zip(systems, found, strict=True):
        texts = {name: _as_text(one.value, one.draw(samples)) for name, one in own.items()}
        tested = [] if own is found[0] else [name for name in own if name in found[0]]
        p = {name: _as_p(own[name].p_against(found[0][name], samples)) for name in tested}
        columns += [(system.name, texts), ("p", p)]
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
        columns: list[tuple[str, dict[str, str]]] = []
        for system, own in zip(systems, found, strict=True):
            if name in own and own[name].heads == first.heads:
                columns += [(system.name, own[name].texts()), ("p", own[name].texts_of_p(first, samples))]
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
    columns: list[tuple[str, dict[str, str]]] = []
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
        p = {one: _as_p(p_of_samples(of_one - first[one])) for one, of_one in drawn.items() if one in first}
        columns += [(f"{name} ({len(members)})", texts), ("p", p)]
    title = (
        "means over seeds (their number), with 95 % intervals over seeds and sentences; one seed has an interval over "
        "sentences alone"
    )
    return [_block(title, columns)]


def _block(title: str, columns: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Returns a table under its title. After each column stands its p; the first one has none."""
    names = list(dict.fromkeys(name for _, texts in columns[::2] for name in texts))
    shown = [pd.Series(texts, names, dtype=object, name=name) for name, texts in columns]
    return f"{title}\n\n{pd.concat([shown[0], *shown[2:]], axis=1).fillna('').to_string()}"


def _as_text(value: float, drawn: np.ndarray | None) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.3f}" if drawn is None else _with_ends(value, *interval(drawn))


def _with_ends(value: Any, low: Any, high: Any) -> str:
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _as_p(p: float) -> str:
    return "" if np.isnan(p) else f"{p:.3f}"


class RatioMeasure(NamedTuple):
    """A measure of a set of sentences that is a ratio of sums.

    - above, below: numerators and denominators of each sentence, `(N,)`.
    - unit: what the ratio is multiplied by.
    """

    above: np.ndarray
    below: np.ndarray
    unit: float = 1.0

    @property
    def value(self) -> float:
        return self.unit * float(ratio(self.above, self.below))

    def draw(self, samples: int) -> np.ndarray | None:
        """Returns the measure of drawn sentences, `(B,)`, the same ones for all measures of as many sentences; None
        for what is measured of no sentences."""
        return self.unit * resample(self.above, self.below, sentence_counts(len(self.above), samples=samples))

    def p_against(self, first: "RatioMeasure", samples: int) -> float:
        """Returns the two-sided p-value of being equal, by approximate randomisation; not-a-number if untested."""
        if len(first.above) != len(self.above):
            return np.nan
        pair = ((one.above[:, None], one.below[:, None]) for one in (first, self))
        return float(randomisation_p(*pair, samples=samples)[0])


class FixedMeasure(NamedTuple):
    """A measure of a model's weights, without any sentence; see `RatioMeasure`."""

    value: float

    def draw(self, samples: int) -> np.ndarray | None:
        return None

    def p_against(self, first: Any, samples: int) -> float:
        return np.nan


class HeadMeasures(NamedTuple):
    """A measure of each head.

    - heads: (layer, head) of each of P.
    - above, below: numerators and denominators, `(N, P)`.
    """

    heads: list[tuple[int, int]]
    above: np.ndarray
    below: np.ndarray

    def mean(self) -> RatioMeasure:
        """Returns the mean over all heads of all layers."""
        return RatioMeasure(self.above.sum(axis=1), self.below.sum(axis=1))

    def renumbered(self, match: MatchedHeads) -> "HeadMeasures":
        """Puts the heads into the places of the first system's."""
        order = [self.heads.index((layer, int(match.heads[layer, head]))) for layer, head in self.heads]
        return HeadMeasures(self.heads, self.above[:, order], self.below[:, order])

    def texts(self) -> dict[str, str]:
        """Returns the value of each head with its interval."""
        values = zip(ratio(self.above, self.below), *ratio_interval(self.above, self.below), strict=True)
        return self._named(_with_ends(*value) for value in values)

    def texts_of_p(self, first: "HeadMeasures", samples: int) -> dict[str, str]:
        """Returns the p-value of each head against the first system's, corrected for their number; none where the
        sentences are others, nor for the first system itself."""
        if first is self or first.above.shape != self.above.shape:
            return {}
        pairs = ((one.above, one.below) for one in (first, self))
        p = randomisation_p(*pairs, samples=max(samples, samples_for(len(self.heads))))
        return self._named(map(_as_p, holm(p)))

    def _named(self, texts: Iterable[str]) -> dict[str, str]:
        return {f"layer {layer} head {head}": text for (layer, head), text in zip(self.heads, texts, strict=True)}


EFFECT = EFFECTS[0]


def heads_of(evaluation: EvaluationDirectory) -> dict[str, HeadMeasures]:
    """Reads what is measured of each head and kept of each sentence: `MEASURES`, and `loss_change CHANGE` where heads
    were replaced; what is not there is left out.

    Raises:
        InputError: a file is damaged.
    """
    found = {}
    places = dict.fromkeys(("id", "layer", "head"), int)
    if evaluation.sentence_heads.is_file():
        table = read_table(evaluation.sentence_heads, places | {"rows": float}, optional=MEASURES)
        found = {name: _head_measures(table, "rows", name) for name in MEASURES if name in table}
    if evaluation.perturbation_sentences.is_file():
        table = read_table(evaluation.perturbation_sentences, places | {"tokens": float, EFFECT: float, "change": str})
        for change, rows in table.groupby("change", sort=False):
            found[f"{EFFECT} {change}"] = _head_measures(rows, "tokens", EFFECT)
    return {
        name: measure for name, measure in found.items() if measure.below.any() and not np.isnan(measure.above).any()
    }


def _head_measures(table: pd.DataFrame, weight: str, name: str) -> HeadMeasures:
    rows = table.sort_values(["id", "layer", "head"], kind="stable")
    heads = list(dict.fromkeys(zip(rows["layer"], rows["head"], strict=True)))
    if len(rows) != rows["id"].nunique() * len(heads):
        raise InputError(f"{name}: expected a row for each sentence, layer and head, found others; evaluate again")
    below, values = (rows[column].to_numpy(float).reshape(-1, len(heads)) for column in (weight, name))
    return HeadMeasures(heads, np.where(below > 0, values, 0.0) * below, below)


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
    """Reads faithfulness_sentences.csv; layers and heads become numbers again where they are.

    Raises:
        InputError: the file is damaged.
    """
    text = dict.fromkeys([*SCORER_NAMES, "removal"], str)
    numbers: dict[str, type] = {"id": int, **dict.fromkeys(["share", "tokens", *SUMS], float)}
    missing = {name: [""] for name in numbers}
    table = read_table(path, text | numbers, dtype=text, keep_default_na=False, na_values=missing)
    for name in SCORER_NAMES[1:]:
        table[name] = [int(value) if value.isdecimal() else value for value in table[name]]
    return table[["id", *KEYS, "tokens", *SUMS]]


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
        ends = {scorer: zip(means, *interval(resampled), strict=True) for scorer, (means, resampled) in own.items()}
        texts[system.name] = ["  ".join(_with_ends(*one) for one in ends.get(scorer, ())) for scorer in order]
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
    return (
        f"{len(scorers)} scorers as {first_name} does: Kendall's tau {kendall(*middle):.2f} "
        f"({low:.2f} to {high:.2f}); {heads}"
    )


def _renumber_rows(table: pd.DataFrame, match: MatchedHeads | None) -> pd.DataFrame:
    """Returns the rows with the numbers that the first system gives to the heads."""
    if match is None:
        return table
    numbers = {(layer, int(head)): number for (layer, number), head in np.ndenumerate(match.heads)}
    heads = [numbers.get(key, key[1]) for key in zip(table["layer"], table["head"], strict=True)]
    return table.assign(head=pd.Series(heads, table.index, dtype=object))


def kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes Kendall's tau-b over the last axis (Kendall 1945): of all pairs, the share that both order alike less
    the share that they order differently, corrected for ties; from -1 to 1, not-a-number if one of them orders nothing:
    `(..., n)` and `(..., n)` to `(...)`."""
    signs = [np.sign(values[..., :, None] - values[..., None, :]) for values in (x, y)]
    alike = (signs[0] * signs[1]).sum(axis=(-2, -1))
    ordered = [np.abs(sign).sum(axis=(-2, -1)) for sign in signs]
    below = np.sqrt(ordered[0] * ordered[1])
    return np.divide(alike, below, out=np.full(np.shape(alike), np.nan), where=below > 0)

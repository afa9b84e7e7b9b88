"""The comparison of measures: of whole evaluations, of each head, over seeds, and of the faithfulness of attention.

Every measure is a ratio of sums over sentences, so each has a confidence interval and a significance test.

Letters: N sentences, B bootstrap samples, P heads.
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
from .systems import ComparedArchive, match_to_first
from .tables import read_result_csv


def compare_measures(
    systems: Sequence[ComparedArchive], scores: Sequence[Mapping[str, CorpusScore]], samples: int
) -> list[str]:
    """Compares evaluations by their scores, their alignment error rates, and the means of measures over all heads.

    Args:
        systems: the evaluations; the first one is the baseline.
        scores: BLEU and chrF of each evaluation by name; an empty mapping if its targets are references.
        samples: the number of bootstrap samples, and of samples in a randomisation test.

    Returns:
        A list with one text: a table with the value of each measure, its 95 % interval over sentences, and its p-value
        against the first evaluation. The list is empty if no evaluation has measures of heads.

    Raises:
        InputError: a file is damaged.
    """
    if not any(read_head_measures(system.evaluation) for system in systems):
        return []
    measures_by_system = [read_measures(system, scores[number]) for number, system in enumerate(systems)]
    baseline = measures_by_system[0]
    columns: list[ReportColumn] = []
    for system, measures in zip(systems, measures_by_system, strict=True):
        texts = {name: _as_text(measure.value, measure.draw(samples)) for name, measure in measures.items()}
        p_values = {}
        if measures is not baseline:
            tested = [name for name in measures if name in baseline]
            p_values = {name: measures[name].p_against(baseline[name], samples) for name in tested}
        columns.append((system.name, texts, p_values))
    title = (
        "all measures, with 95 % intervals over sentences; p against the first by approximate randomisation; "
        "measures of heads are means over all heads"
    )
    return [_format_table(title, columns)]


def compare_heads(
    systems: Sequence[ComparedArchive], matches: Sequence[MatchedHeads | None], samples: int
) -> list[str]:
    """Compares evaluations by the measures of each head.

    Args:
        systems: the evaluations; the first one is the baseline.
        matches: for each system but the first, the match of its heads with the first system's heads, see
            `match_to_first`; None if they cannot be matched. The heads of that system are then left out.
        samples: the number of bootstrap samples, and the least number of samples in a randomisation test. Tests
            of many heads take more samples.

    Returns:
        A list of texts: a heading; a table for each measure, with the value of each head, its 95 % interval over
        sentences and its p-value against the first system, corrected for all heads of the measure (Holm 1979); and a
        line for each system that was left out. If the first system has no measures of heads, a line says so instead of
        heading and tables.

    Raises:
        InputError: a file is damaged.
    """
    measures_by_system = [read_head_measures(systems[0].evaluation)]
    for system, match in zip(systems[1:], matches, strict=True):
        measures = read_head_measures(system.evaluation)
        measures_by_system.append(
            {name: measure.renumbered(match) for name, measure in measures.items()} if match else {}
        )
    blocks = []
    for name, baseline in measures_by_system[0].items():
        heads = [f"layer {layer} head {head}" for layer, head in baseline.heads]
        columns: list[ReportColumn] = []
        for system, measures in zip(systems, measures_by_system, strict=True):
            measure = measures.get(name)
            if measure is not None and measure.heads == baseline.heads:
                texts = dict(zip(heads, map(_as_text, measure.value, measure.draw(samples).T), strict=True))
                p_values = holm(measure.p_against(baseline, max(samples, exchanges_for(len(heads)))))
                columns.append((system.name, texts, dict(zip(heads, p_values, strict=True))))
        blocks.append(_format_table(name, columns))
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
    systems: Sequence[ComparedArchive],
    scores: Sequence[Mapping[str, CorpusScore]],
    samples: int,
) -> list[str]:
    """Compares training recipes. A recipe is a group of runs that differ only in their seed.

    Args:
        groups: for each recipe its name, and the index of one system for each seed.
        systems: the evaluations.
        scores: see `compare_measures`.
        samples: the number of bootstrap samples.

    Returns:
        A list with one text: a table with the mean of each measure over seeds, its 95 % interval over seeds and
        sentences, and its p-value against the first recipe. The list is empty if no recipe has several seeds.

    Raises:
        InputError: a file is damaged.
    """
    if all(len(members) < 2 for _, members in groups):
        return []
    columns: list[ReportColumn] = []
    baseline: dict[str, np.ndarray] = {}
    for number, (recipe, members) in enumerate(groups):
        measures_by_seed = [read_measures(systems[member], scores[member]) for member in members]
        shared = [name for name in measures_by_seed[0] if all(name in measures for measures in measures_by_seed)]
        draws = {}
        texts = {}
        for name in shared:
            values = np.array([measures[name].value for measures in measures_by_seed])
            resampled = []
            for measures, value in zip(measures_by_seed, values, strict=True):
                samples_of_seed = measures[name].draw(samples)
                resampled.append(np.full(samples, value) if samples_of_seed is None else samples_of_seed)
            draws[name] = draw_over_seeds(np.stack(resampled), values, seed=number)
            texts[name] = _as_text(float(values.mean()), draws[name])
        baseline = baseline or draws
        p_values = {name: p_of_samples(draws[name] - baseline[name]) for name in draws if name in baseline}
        columns.append((f"{recipe} ({len(members)})", texts, p_values))
    title = (
        "means over seeds (their number), with 95 % intervals over seeds and sentences; one seed has an interval over "
        "sentences alone"
    )
    return [_format_table(title, columns)]


ReportColumn = tuple[str, dict[str, str], dict[str, float]]
"""A column of a table: its heading, the text of each row by name, and the p-value of each row that was tested."""


def _format_table(title: str, columns: Sequence[ReportColumn]) -> str:
    """Returns the text of a table below its title. Each column but the first is followed by its p-values."""
    names = list(dict.fromkeys(name for _, texts, _ in columns for name in texts))
    table = pd.DataFrame(index=names)

    def append(heading: str, cells: dict[str, str]) -> None:
        column = pd.Series(cells, names, dtype=object).fillna("")
        table.insert(len(table.columns), heading, column, allow_duplicates=True)

    for number, (heading, texts, p_values) in enumerate(columns):
        append(heading, texts)
        if number > 0:
            append("p", {name: "" if np.isnan(p) else f"{p:.3f}" for name, p in p_values.items()})
    return f"{title}\n\n{table.to_string()}"


def _as_text(value: float, samples: np.ndarray | None) -> str:
    """Returns a value with the 95 % interval of its bootstrap samples, if it has any; an empty text for NaN."""
    if np.isnan(value):
        return ""
    if samples is None:
        return f"{value:.3f}"
    low, high = interval(samples)
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


class RatioMeasure(NamedTuple):
    """A measure of an evaluation, or of each of its heads, that is a ratio of two sums over sentences.

    It has the interface of `metrics.bleu.CorpusScore`.

    - above: the numerator of each sentence, `(N,)`; for a measure of heads `(N, P)`.
    - below: the denominator of each sentence, of the same shape.
    - unit: a factor of the ratio, such as 100 for percent.
    - heads: (layer, head) of each of the P heads; empty for a measure of the evaluation.
    """

    above: np.ndarray
    below: np.ndarray
    unit: float = 1.0
    heads: Sequence[tuple[int, int]] = ()

    @property
    def value(self) -> Any:
        """The measure over all sentences: a float; an array `(P,)` for a measure of P heads."""
        return self.unit * ratio(self.above, self.below)

    def draw(self, samples: int) -> Any:
        """Returns the measure of each bootstrap sample, `(B,)` or `(B, P)`.

        All measures with the same number of sentences have the same samples of sentences.

        Args:
            samples: B.
        """
        return self.unit * resample(self.above, self.below, sentence_counts(len(self.above), samples=samples))

    def p_against(self, first: "RatioMeasure", samples: int) -> Any:
        """Returns the two-sided p-value of the difference from another measure, by approximate randomisation.

        Args:
            first: the measure of the baseline.
            samples: the number of samples in the randomisation test.

        Returns:
            A float from 0 to 1; an array `(P,)` for a measure of P heads. NaN if `first` is this measure, or has
            another number of sentences or heads.
        """
        if first is self or first.above.shape != self.above.shape:
            return np.full(self.above.shape[1:], np.nan)
        return randomisation_p(first[:2], self[:2], samples=samples)

    def mean(self) -> "RatioMeasure":
        """Returns the mean of the measure over all heads of all layers, as a measure of the evaluation."""
        return RatioMeasure(self.above.sum(axis=1), self.below.sum(axis=1))

    def renumbered(self, match: MatchedHeads) -> "RatioMeasure":
        """Returns the measure with its heads in the order of the first system's heads to which they are matched."""
        order = [self.heads.index((layer, int(match.heads[layer, head]))) for layer, head in self.heads]
        return self._replace(above=self.above[:, order], below=self.below[:, order])


class FixedMeasure(NamedTuple):
    """A measure of a model's weights, which depends on no sentences. It has the interface of `RatioMeasure`."""

    value: float

    def draw(self, samples: int) -> None:
        """Returns None, because there are no sentences to resample."""

    def p_against(self, first: Any, samples: int) -> float:
        """Returns NaN, because there are no sentences to exchange."""
        return np.nan


EFFECT = EFFECTS[0]
"""The effect of an ablation that is compared: the change of the loss."""


def read_head_measures(evaluation: EvaluationDirectory) -> dict[str, RatioMeasure]:
    """Reads the measures of each head from the tables that have a row for each sentence and head.

    Returns:
        The measures by name: the names of `inspection.measures.MEASURES` and, if heads were ablated (`--perturb`),
        `loss_change CHANGE` for each change. Measures without a value are left out. The dict is empty if the tables are
        missing.

    Raises:
        InputError: a file is damaged.
    """
    measures = {}
    keys = dict.fromkeys(("id", "layer", "head"), int)
    if evaluation.sentence_heads.is_file():
        table = read_result_csv(evaluation.sentence_heads, keys | {"rows": float}, optional=MEASURES)
        measures = {name: _measure_of_heads(table, "rows", name) for name in MEASURES if name in table}
    if evaluation.perturbation_sentences.is_file():
        columns = keys | {"tokens": float, EFFECT: float, "change": str}
        table = read_result_csv(evaluation.perturbation_sentences, columns)
        for change, rows in table.groupby("change", sort=False):
            measures[f"{EFFECT} {change}"] = _measure_of_heads(rows, "tokens", EFFECT)
    return {
        name: measure for name, measure in measures.items() if measure.below.any() and not np.isnan(measure.above).any()
    }


def _measure_of_heads(table: pd.DataFrame, weight: str, name: str) -> RatioMeasure:
    """Returns the weighted mean of a column over sentences, a value for each head.

    Args:
        table: a table with a row for each sentence, layer and head.
        weight: the column of the weights.
        name: the column of the values.

    Raises:
        InputError: a row is missing, or there are several rows for a sentence, layer and head.
    """
    rows = table.sort_values(["id", "layer", "head"], kind="stable")
    heads = list(dict.fromkeys(zip(rows["layer"], rows["head"], strict=True)))
    if len(rows) != rows["id"].nunique() * len(heads):
        raise InputError(f"{name}: expected a row for each sentence, layer and head, found others; evaluate again")
    weights = rows[weight].to_numpy(float).reshape(-1, len(heads))
    values = rows[name].to_numpy(float).reshape(-1, len(heads))
    return RatioMeasure(np.where(weights > 0, values, 0.0) * weights, weights, heads=heads)


def read_measures(system: ComparedArchive, scores: Mapping[str, CorpusScore]) -> dict[str, Any]:
    """Reads all measures of an evaluation: scores, alignment error rate, means over heads and effective rank.

    Args:
        system: the evaluation.
        scores: BLEU and chrF of the evaluation by name, see `compare_measures`.

    Returns:
        The measures by name: the scores; `AER`, the alignment error rate in percent; the mean of each measure of heads
        over all heads; and `effective_rank`, the mean effective rank of the weights of all heads. Measures that the
        evaluation does not have are left out. Each is a `CorpusScore`, a `RatioMeasure` or a `FixedMeasure`.

    Raises:
        InputError: a file is damaged.
    """
    measures: dict[str, Any] = dict(scores)
    counts = read_link_counts(system)
    if counts is not None:
        measures["AER"] = RatioMeasure(*error_terms(counts), unit=100.0)
    measures |= {name: measure.mean() for name, measure in read_head_measures(system.evaluation).items()}
    if system.evaluation.spectra.is_file():
        ranks = read_result_csv(system.evaluation.spectra, {"effective_rank": float})["effective_rank"]
        measures["effective_rank"] = FixedMeasure(float(ranks.mean()))
    return measures


def read_link_counts(system: ComparedArchive) -> np.ndarray | None:
    """Reads the counts of links in each sentence, for the layer and head of the evaluation's readout.

    Returns:
        `(N, 4)`, in the order of `LINK_COUNTS`. None if the evaluation has no counts per sentence.

    Raises:
        InputError: the table is damaged, or has another number of sentences than `metrics.json`.
    """
    readout = system.metrics.get("alignment")
    path = system.evaluation.sentence_alignment
    if not readout or not path.is_file():
        return None
    columns = dict.fromkeys(("id", "layer", *LINK_COUNTS), int) | {"head": str}
    table = read_result_csv(path, columns, dtype={"head": str})
    is_readout = (table["layer"] == readout.get("layer")) & (table["head"] == str(readout.get("head")))
    counts = table[is_readout][list(LINK_COUNTS)].to_numpy(float)
    if len(counts) != readout.get("sentences"):
        raise InputError(f"{path}: expected {readout.get('sentences')} sentences, found {len(counts)}; evaluate again")
    return counts


SCORER_COLUMNS = list(Scorer._fields)
"""The columns of `faithfulness_sentences.csv` that identify a scorer."""


def read_faithfulness(path: Path) -> pd.DataFrame:
    """Reads `faithfulness_sentences.csv`. Layers and heads are strings, since they may be `mean` or empty.

    Raises:
        InputError: the file is damaged.
    """
    text = dict.fromkeys([*SCORER_COLUMNS, "removal"], str)
    numbers: dict[str, type] = {"id": int, **dict.fromkeys(["share", "tokens", *SUMS], float)}
    missing = {name: [""] for name in numbers}
    return read_result_csv(path, text | numbers, dtype=text, keep_default_na=False, na_values=missing)


def compare_faithfulness(systems: Sequence[ComparedArchive], samples: int) -> list[str]:
    """Compares the faithfulness of attention (`evaluate.py --faithfulness`) on the sentences that all systems share.

    Args:
        systems: the evaluations; the first one is the baseline.
        samples: the number of bootstrap samples.

    Returns:
        A list of texts. The first is a table of the comprehensiveness and sufficiency of each scorer, with 95 %
        intervals over sentences. A head has the number of the first system's head to which it is matched. Each other
        system then has a line with Kendall's tau between its order of the scorers and the first system's order, and
        with the 95 % interval of tau. The list is empty if the faithfulness of a system was not measured, or if no
        sentence is shared.

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
    drops_by_system = []
    for table, match in zip(tables, matches, strict=True):
        shared_rows = table[table["id"].isin(common)]
        drops_by_system.append(_drops_of_scorers(_renumber_rows(shared_rows, match), samples))
    baseline = drops_by_system[0]
    order = sorted(baseline, key=lambda scorer: -baseline[scorer][0][0])
    texts = {}
    for system, drops in zip(systems, drops_by_system, strict=True):
        cells = {scorer: "  ".join(map(_as_text, means, resampled.T)) for scorer, (means, resampled) in drops.items()}
        texts[system.name] = [cells.get(scorer, "") for scorer in order]
    title = (
        f"faithfulness on {len(common)} sentences: comprehensiveness, sufficiency, each with its 95 % interval; "
        "heads are numbered as in the first"
    )
    lines = [
        f"{system.name} orders {_describe_agreement(systems[0].name, baseline, drops, match)}"
        for system, drops, match in zip(systems[1:], drops_by_system[1:], matches[1:], strict=True)
    ]
    return [f"{title}\n\n{pd.DataFrame(texts, list(map(str, order))).to_string()}", *lines]


Drops = dict[Scorer, tuple[np.ndarray, np.ndarray]]
"""The means of comprehensiveness and sufficiency (`DROPS`) of each scorer: over all sentences, `(2,)`, and over the
sentences of each bootstrap sample, `(B, 2)`."""


def _drops_of_scorers(table: pd.DataFrame, samples: int) -> Drops:
    """Returns the mean comprehensiveness and sufficiency of each scorer, over all sentences and in bootstrap samples.

    Args:
        table: a table of `read_faithfulness`.
        samples: the number of bootstrap samples.
    """
    keys, sums, tokens = sums_of_sentences(table)
    rows = keys.index[keys["removal"] == "mean"]
    numerators = sums[:, rows, : len(DROPS)]
    denominators = np.repeat(tokens[:, rows, None], len(DROPS), axis=-1)
    means = ratio(numerators, denominators)
    resampled = resample(numerators, denominators, sentence_counts(len(sums), samples=samples))
    scorers = [Scorer(*row) for row in keys.loc[rows, SCORER_COLUMNS].itertuples(index=False)]
    return {scorer: (means[number], resampled[:, number]) for number, scorer in enumerate(scorers)}


def _describe_agreement(baseline_name: str, baseline: Drops, drops: Drops, match: MatchedHeads | None) -> str:
    """Returns a text about the agreement of a system with the baseline on the order of the scorers.

    It gives Kendall's tau with its 95 % interval, and says how the heads of the two systems were matched.

    Args:
        baseline_name: the name of the first system.
        baseline: the mean comprehensiveness and sufficiency of the first system's scorers.
        drops: the mean comprehensiveness and sufficiency of the system's scorers.
        match: the heads of the system that are matched with those of the first system. If it is None, scorers of single
        heads are left out.
    """
    scorers = [scorer for scorer in baseline if scorer in drops and (match or scorer.head in ("", MEAN))]

    def comprehensiveness(values: Drops, part: int) -> np.ndarray:
        return np.stack([values[scorer][part][..., 0] for scorer in scorers], axis=-1)

    tau = kendall(comprehensiveness(baseline, 0), comprehensiveness(drops, 0))
    low, high = interval(kendall(comprehensiveness(baseline, 1), comprehensiveness(drops, 1)))
    heads = "heads are left out, for they cannot be matched: no target is the same; evaluate with --forced"
    if match is not None:
        heads = f"heads matched on {match.sentences} sentences, where {match.overlap:.0%} of their weights overlap"
    tau_text = f"{tau:.2f} ({low:.2f} to {high:.2f})"
    return f"{len(scorers)} scorers as {baseline_name} does: Kendall's tau {tau_text}; {heads}"


def _renumber_rows(table: pd.DataFrame, match: MatchedHeads | None) -> pd.DataFrame:
    """Returns the table with each head's number replaced by the number of the first system's head that matches it.

    Args:
        table: a table of `read_faithfulness`.
        match: the match of the heads; None to return the table unchanged.
    """
    if match is None:
        return table
    numbers = {(f"{layer}", f"{head}"): f"{number}" for (layer, number), head in np.ndenumerate(match.heads)}
    return table.assign(head=[numbers.get(key, key[1]) for key in zip(table["layer"], table["head"], strict=True)])


def kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes Kendall's tau-b, a rank correlation, over the last axis (Kendall 1945).

    It is the share of pairs of values that both sides order alike, minus the share that they order differently,
    corrected for ties.

    Args:
        x: the values of one side, `(..., n)`.
        y: the values of the other side, `(..., n)`.

    Returns:
        `(...)`, from -1 to 1; NaN if all values of one side are equal.
    """
    x_signs = np.sign(x[..., :, None] - x[..., None, :])
    y_signs = np.sign(y[..., :, None] - y[..., None, :])
    agreement = (x_signs * y_signs).sum(axis=(-2, -1))
    untied_x = np.abs(x_signs).sum(axis=(-2, -1))
    untied_y = np.abs(y_signs).sum(axis=(-2, -1))
    divisor = np.sqrt(untied_x * untied_y)
    return np.divide(agreement, divisor, out=np.full(np.shape(agreement), np.nan), where=divisor > 0)

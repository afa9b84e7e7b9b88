"""Compares evaluations: scores and alignment error rates with intervals and paired tests, and the cost of each run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import sacrebleu
from sacrebleu.significance import PairedTest

from ..alignment.error_rate import LINK_COUNTS, error_terms
from ..errors import InputError
from ..metrics.bleu import CorpusScore, check_bleu_tokenizer, make_bleu
from ..statistics.resampling import ratio_interval
from ..statistics.significance import difference_interval, randomisation_p
from .measure_comparison import compare_measures, compare_seeds, read_counts
from .systems import EvaluatedArchive


def compare(systems: list[EvaluatedArchive], samples: int) -> tuple[pd.DataFrame, list[str]]:
    """Compares evaluations of the same text.

    Returns:
        A row for each: BLEU and chrF with the half width of the 95 % confidence interval of a bootstrap, the p-values
            of a paired bootstrap test against the first (Koehn 2004), and the cost of the run. Archives over given
            targets have no BLEU and chrF. Alignment error rates, each with its own chosen readout, have half the width
            of their interval and p by approximate randomisation; not-a-number without the counts of each sentence.
        Lines that name differences of error rates that may be none, and runs without an interval.

    Raises:
        InputError: the evaluations are not of the same text, or were made in different ways.
    """
    for other in systems[1:]:
        _check_comparable(other, systems[0])
    scores: list[dict[str, Any]] = [{} for _ in systems]
    if all("translation" in system.table for system in systems):  # else targets were given, which need no score
        scores = _score(systems, samples)
    error_rates, lines = _compare_error_rates(systems, samples)
    rows = [
        {"": system.name, **row, "AER": None, **of_links, **system.facts()}
        for system, row, of_links in zip(systems, scores, error_rates, strict=True)
    ]
    return pd.DataFrame(rows).astype({"seed": "Int64"}), lines


def compare_all_measures(systems: list[EvaluatedArchive], samples: int) -> list[str]:
    """Returns the tables of `compare_measures` and `compare_seeds`."""
    scores = _score_counts(systems)
    groups = [(systems[min(rows.values())].name, list(rows.values())) for rows in _groups_of_seeds(systems)]
    return compare_measures(systems, scores, samples) + compare_seeds(groups, systems, scores, samples)


def find_worse(table: pd.DataFrame) -> list[str]:
    """Returns a line for each score of a run that is lower than the first run's, with p below `SIGNIFICANT`."""
    lines = []
    for metric in ("BLEU", "chrF"):
        first = table[metric][0]
        worse = table[(table[metric] < first) & (table[f"{metric} p"] < SIGNIFICANT)]
        lines += [
            f"{name} is worse than {table[''][0]}: {metric} {score:.2f} after {first:.2f}, p {p:.3f}"
            for name, score, p in worse[["", metric, f"{metric} p"]].itertuples(index=False)
        ]
    return lines


def _score(systems: list[EvaluatedArchive], samples: int) -> list[dict[str, Any]]:
    """Returns the columns of BLEU and chrF of each."""
    tokenizer, origin = _common_tokenizer(systems)
    check_bleu_tokenizer(tokenizer, origin)
    translations: list[tuple[str, Sequence[str]]] = [
        (f"{i}", system.table["translation"].tolist()) for i, system in enumerate(systems)
    ]
    metrics = {"BLEU": make_bleu(tokenizer), "chrF2": sacrebleu.CHRF()}
    references = [systems[0].table["reference"].tolist()]
    _, scores = PairedTest(translations, metrics, references, test_type="bs", n_samples=samples)()
    rows = []
    for i in range(len(systems)):
        row: dict[str, Any] = {}
        for metric, name in (("BLEU", "BLEU"), ("chrF2", "chrF")):
            result: Any = scores[metric][i]
            # For equal translations sacreBLEU returns a small p-value, since none of its samples differs by more.
            is_same = i > 0 and translations[i][1] == translations[0][1]
            row |= {name: result.score, f"{name} ±": result.ci, f"{name} p": 1.0 if is_same else result.p_value}
        rows.append(row)
    return rows


def _common_tokenizer(systems: list[EvaluatedArchive]) -> tuple[str, str]:
    """Returns how BLEU splits text into words, and where that is said: archives without a run may say nothing."""
    named = [system for system in systems if system.bleu_tokenizer is not None]
    if not named:
        return "13a", "qkv measure --bleu_tokenizer"  # for archives that have never been scored
    for other in named[1:]:
        if other.bleu_tokenizer != named[0].bleu_tokenizer:
            names = f"{other.name} and {named[0].name} have BLEU by different tokenizers"
            found = f"{other.bleu_tokenizer} and {named[0].bleu_tokenizer}"
            raise InputError(f"{names}, {found}; evaluate both with one --bleu_tokenizer")
    return str(named[0].bleu_tokenizer), str(named[0].evaluation.metrics)


def _check_comparable(other: EvaluatedArchive, first: EvaluatedArchive) -> None:
    for side in ("source", "reference"):
        if other.table[side].tolist() != first.table[side].tolist():
            roots = f"{other.evaluation.root} and {first.evaluation.root}"
            raise InputError(f"{roots} have different {side} sentences; compare evaluations of one set")
    modes = [other.mode, first.mode]
    if None not in modes and modes[0] != modes[1]:
        forced, translated = (other, first) if modes[0] == "forced" else (first, other)
        roots = f"{forced.evaluation.root} is forced, and {translated.evaluation.root} is not"
        raise InputError(f"{roots}; compare translations with translations, references with references")


def _score_counts(systems: Sequence[EvaluatedArchive]) -> list[dict[str, CorpusScore]]:
    """Returns what BLEU and chrF count in each sentence; empty for all where targets were given."""
    if not all("translation" in system.table for system in systems):
        return [{} for _ in systems]
    metrics = {"BLEU": make_bleu(_common_tokenizer(list(systems))[0]), "chrF": sacrebleu.CHRF()}
    texts = [(system.table["translation"].tolist(), system.table["reference"].tolist()) for system in systems]
    return [{name: CorpusScore.of(metric, *pair) for name, metric in metrics.items()} for pair in texts]


def _groups_of_seeds(systems: Sequence[EvaluatedArchive]) -> list[dict[int | None, int]]:
    """Returns the systems' places by their seed, each once, of each group of runs that differ in nothing else."""
    groups: dict[str, dict[int | None, int]] = {}
    for i, system in enumerate(systems):
        groups.setdefault(system.key_without_seed(), {}).setdefault(system.seed, i)
    return list(groups.values())


def means_over_seeds(systems: list[EvaluatedArchive], table: pd.DataFrame) -> list[str]:
    """Returns a line for every group of runs that differ in nothing but their seed, and one where a limit of time has
    ended them after different numbers of updates."""
    lines = []
    for rows in _groups_of_seeds(systems):
        if len(rows) < 2:
            continue
        first, *others = rows.values()
        if "BLEU" in table:
            bleu, chrf = (table[name].iloc[[first, *others]] for name in ("BLEU", "chrF"))
            lines.append(
                f"{systems[first].name} and {len(others)} more, seeds {', '.join(map(str, rows))}: "
                f"mean BLEU {bleu.mean():.2f}, from {bleu.min():.2f} to {bleu.max():.2f}; mean chrF {chrf.mean():.2f}"
            )
        updates = table["updates"].iloc[[first, *others]].dropna()
        if updates.nunique() > 1:
            lines.append(
                f"{systems[first].name} and {len(others)} more ended after {', '.join(f'{n:,.0f}' for n in updates)} "
                "updates, so more than their seed differs: a limit of time has ended some of them"
            )
    return lines


SIGNIFICANT = 0.05
KNOWN_OF_RUNS = ("loss", "seed", "parameters", "updates", "minutes")

DIGITS = {
    **dict.fromkeys(("BLEU", "BLEU ±", "chrF", "chrF ±", "AER", "AER ±"), 2),
    **dict.fromkeys(("BLEU p", "chrF p", "AER p"), 3),
    "loss": 4,
    "minutes": 1,
    "parameters": 0,
    "updates": 0,
}


def as_text(table: pd.DataFrame) -> str:
    """Returns the table as it is printed."""
    # Without gold alignments, or archives without runs.
    shown = table.drop(columns=[name for name in ("AER", "AER ±", "AER p", *KNOWN_OF_RUNS) if table[name].isna().all()])
    forms: dict[Any, Any] = {name: f"{{:,.{digits}f}}".format for name, digits in DIGITS.items()}
    columns = {name: ["" if pd.isna(x) else forms.get(name, str)(x) for x in shown[name]] for name in shown}
    return pd.DataFrame(columns).to_string(index=False)


def _compare_error_rates(systems: Sequence[EvaluatedArchive], samples: int) -> tuple[list[dict[str, float]], list[str]]:
    """Returns the columns `AER ±` and `AER p` of each, and the lines of `compare`."""
    counts = [read_counts(system) for system in systems]
    first, sure = counts[0], LINK_COUNTS.index("sure")
    rows, lines = [], []
    for system, own in zip(systems, counts, strict=True):
        row = {"AER ±": np.nan, "AER p": np.nan}
        if own is not None:
            terms = error_terms(own[:, None])
            low, high = ratio_interval(*terms)
            row["AER ±"] = 100 * float(high[0] - low[0]) / 2
            if own is not first and first is not None and np.array_equal(own[:, sure], first[:, sure]):
                both = error_terms(first[:, None]), terms
                row["AER p"] = p = float(randomisation_p(*both, samples=samples)[0])
                if p >= SIGNIFICANT:
                    ends = [100 * float(end[0]) for end in difference_interval(*both)]
                    rates = [scored.metrics["alignment"]["aer"] for scored in (system, systems[0])]
                    lines.append(
                        f"{system.name}: AER {rates[0]:.1f} against {rates[1]:.1f} % on {len(own)} sentences may not "
                        f"differ at all (p {p:.2f}; 95 % interval of the difference {ends[0]:+.1f} to {ends[1]:+.1f})"
                    )
        elif "alignment" in system.metrics:
            lines.append(f"{system.name}: no interval of AER: {system.evaluation.sentence_alignment.name} is missing")
        rows.append(row)
    return rows, lines

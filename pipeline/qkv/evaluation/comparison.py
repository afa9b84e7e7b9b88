"""The comparison of evaluations: scores and alignment error rates with intervals and paired tests, and the cost of each
run.
"""

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
from .measure_comparison import compare_measures, compare_seeds, read_link_counts
from .systems import ComparedArchive


def compare(systems: list[ComparedArchive], samples: int) -> tuple[pd.DataFrame, list[str]]:
    """Compares evaluations of the same text.

    Args:
        systems: the evaluations; the first one is the baseline.
        samples: the number of bootstrap samples, and of samples in a randomisation test.

    Returns:
        A table with a row for each system, and the lines to print below it. The table has these columns:

        - BLEU and chrF, each with half the width of its 95 % bootstrap interval (`±`), and with the p-value of a paired
          bootstrap test against the first system (Koehn 2004). The columns are missing if the targets are references.
        - AER, the alignment error rate of the system's readout in percent, with half the width of its 95 % interval,
          and with the p-value of approximate randomisation against the first system. Interval and p-value are NaN if
          the evaluation has no counts per sentence. The p-value is also NaN for the first system, and if the gold
          alignments of the two systems differ.
        - The loss, the search, and the seed, parameters, updates and minutes of the run.

        The lines name the error rates whose difference is not significant, and the systems whose error rate has no
        interval.

    Raises:
        InputError: the evaluations are of different text; some are of translations and others of references; the
            systems have BLEU by different tokenizers; or a file is damaged.
    """
    for other in systems[1:]:
        _check_comparable(other, systems[0])
    scores: list[dict[str, Any]] = [{} for _ in systems]
    if all("translation" in system.table for system in systems):  # references as targets are not scored
        scores = _score(systems, samples)
    error_rates, lines = _compare_error_rates(systems, samples)
    rows = [
        {"": system.name, **score, "AER": None, **error_rate, **system.facts()}
        for system, score, error_rate in zip(systems, scores, error_rates, strict=True)
    ]
    return pd.DataFrame(rows).astype({"seed": "Int64"}), lines


def compare_all_measures(systems: list[ComparedArchive], samples: int) -> list[str]:
    """Returns the tables of `compare_measures` and `compare_seeds`, as text.

    Args:
        systems: the evaluations; the first one is the baseline.
        samples: the number of bootstrap samples, and of samples in a randomisation test.

    Raises:
        InputError: a file is damaged; or the systems have BLEU by different tokenizers.
    """
    scores = _score_counts(systems)
    groups = [(systems[min(rows.values())].name, list(rows.values())) for rows in _groups_of_seeds(systems)]
    return compare_measures(systems, scores, samples) + compare_seeds(groups, systems, scores, samples)


def find_worse(table: pd.DataFrame) -> list[str]:
    """Returns a line for each BLEU or chrF that is lower than the first system's, with a p-value below `SIGNIFICANT`.

    Args:
        table: the table of `compare`. It must have the columns of BLEU and chrF.
    """
    lines = []
    for metric in ("BLEU", "chrF"):
        first = table[metric][0]
        worse = table[(table[metric] < first) & (table[f"{metric} p"] < SIGNIFICANT)]
        lines += [
            f"{name} is worse than {table[''][0]}: {metric} {score:.2f} after {first:.2f}, p {p:.3f}"
            for name, score, p in worse[["", metric, f"{metric} p"]].itertuples(index=False)
        ]
    return lines


def _score(systems: list[ComparedArchive], samples: int) -> list[dict[str, Any]]:
    """Returns the columns of BLEU and chrF for each system, with their intervals and p-values; see `compare`."""
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


def _common_tokenizer(systems: list[ComparedArchive]) -> tuple[str, str]:
    """Returns the name of the BLEU tokenizer that all systems share, and the file or option that sets it.

    Archives that were never scored have no tokenizer and are passed over. If no system has a tokenizer, the result is
    the default of `qkv measure`.

    Raises:
        InputError: two systems have different tokenizers.
    """
    named = [system for system in systems if system.bleu_tokenizer is not None]
    if not named:
        return "13a", "qkv measure --bleu_tokenizer"
    for other in named[1:]:
        if other.bleu_tokenizer != named[0].bleu_tokenizer:
            names = f"{other.name} and {named[0].name} have BLEU by different tokenizers"
            tokenizers = f"{other.bleu_tokenizer} and {named[0].bleu_tokenizer}"
            raise InputError(f"{names}, {tokenizers}; evaluate both with one --bleu_tokenizer")
    return str(named[0].bleu_tokenizer), str(named[0].evaluation.metrics)


def _check_comparable(other: ComparedArchive, first: ComparedArchive) -> None:
    """Raises an `InputError` if two evaluations are of different text, or if one is of translations and the other of
    references.
    """
    for side in ("source", "reference"):
        if other.table[side].tolist() != first.table[side].tolist():
            roots = f"{other.evaluation.root} and {first.evaluation.root}"
            raise InputError(f"{roots} have different {side} sentences; compare evaluations of one set")
    modes = [other.mode, first.mode]
    if None not in modes and modes[0] != modes[1]:
        forced, translated = (other, first) if modes[0] == "forced" else (first, other)
        roots = f"{forced.evaluation.root} is forced, and {translated.evaluation.root} is not"
        raise InputError(f"{roots}; compare translations with translations, references with references")


def _score_counts(systems: Sequence[ComparedArchive]) -> list[dict[str, CorpusScore]]:
    """Returns for each system a dict with the scores `BLEU` and `chrF`, which hold counts for each sentence.

    The dicts are empty if the targets are references.
    """
    if not all("translation" in system.table for system in systems):
        return [{} for _ in systems]
    metrics = {"BLEU": make_bleu(_common_tokenizer(list(systems))[0]), "chrF": sacrebleu.CHRF()}
    texts = [(system.table["translation"].tolist(), system.table["reference"].tolist()) for system in systems]
    return [{name: CorpusScore.of(metric, *pair) for name, metric in metrics.items()} for pair in texts]


def _groups_of_seeds(systems: Sequence[ComparedArchive]) -> list[dict[int | None, int]]:
    """Groups runs that differ only in their seed.

    Returns:
        For each group a dict from seed to the index, in `systems`, of the first system with this seed.
    """
    groups: dict[str, dict[int | None, int]] = {}
    for i, system in enumerate(systems):
        groups.setdefault(system.key_without_seed(), {}).setdefault(system.seed, i)
    return list(groups.values())


def means_over_seeds(systems: list[ComparedArchive], table: pd.DataFrame) -> list[str]:
    """Returns lines about the groups of runs that differ only in their seed.

    The first line of a group gives its mean BLEU and chrF, unless the targets are references. A second line warns if
    the runs have different numbers of updates, because a time limit ended them.

    Args:
        systems: the evaluations.
        table: the table of `compare`.
    """
    lines = []
    for rows in _groups_of_seeds(systems):
        if len(rows) < 2:
            continue
        indices = list(rows.values())
        group = f"{systems[indices[0]].name} and {len(indices) - 1} more"
        if "BLEU" in table:
            bleu = table["BLEU"].iloc[indices]
            chrf = table["chrF"].iloc[indices]
            lines.append(
                f"{group}, seeds {', '.join(map(str, rows))}: "
                f"mean BLEU {bleu.mean():.2f}, from {bleu.min():.2f} to {bleu.max():.2f}; mean chrF {chrf.mean():.2f}"
            )
        updates = table["updates"].iloc[indices].dropna()
        if updates.nunique() > 1:
            lines.append(
                f"{group} ended after {', '.join(f'{n:,.0f}' for n in updates)} updates, so more than their seed "
                "differs: a limit of time has ended some of them"
            )
    return lines


SIGNIFICANT = 0.05
"""A difference is significant if its p-value is below this."""

RUN_COLUMNS = ("loss", "seed", "parameters", "updates", "minutes")
"""The columns of the table that an archive without a run may lack."""

COLUMN_DIGITS = {
    **dict.fromkeys(("BLEU", "BLEU ±", "chrF", "chrF ±", "AER", "AER ±"), 2),
    **dict.fromkeys(("BLEU p", "chrF p", "AER p"), 3),
    "loss": 4,
    "minutes": 1,
    "parameters": 0,
    "updates": 0,
}
"""The number of decimals of each column of the table."""


def as_text(table: pd.DataFrame) -> str:
    """Returns the table of `compare` as text. Columns without any value are left out."""
    # They are empty if there are no gold alignments, or only archives without runs.
    may_be_empty = ("AER", "AER ±", "AER p", *RUN_COLUMNS)
    table = table.drop(columns=[name for name in may_be_empty if table[name].isna().all()])
    formats: dict[Any, Any] = {name: f"{{:,.{digits}f}}".format for name, digits in COLUMN_DIGITS.items()}
    cells = {name: ["" if pd.isna(x) else formats.get(name, str)(x) for x in table[name]] for name in table}
    return pd.DataFrame(cells).to_string(index=False)


def _compare_error_rates(systems: Sequence[ComparedArchive], samples: int) -> tuple[list[dict[str, float]], list[str]]:
    """Returns the columns `AER ±` and `AER p` of each system, and the lines of `compare`."""
    counts_by_system = [read_link_counts(system) for system in systems]
    baseline = counts_by_system[0]
    sure = LINK_COUNTS.index("sure")
    rows = []
    lines = []
    for system, counts in zip(systems, counts_by_system, strict=True):
        row = {"AER ±": np.nan, "AER p": np.nan}
        if counts is not None:
            terms = error_terms(counts[:, None])
            low, high = ratio_interval(*terms)
            row["AER ±"] = 100 * float(high[0] - low[0]) / 2
            if counts is not baseline and baseline is not None and np.array_equal(counts[:, sure], baseline[:, sure]):
                baseline_terms = error_terms(baseline[:, None])
                row["AER p"] = p = float(randomisation_p(baseline_terms, terms, samples=samples)[0])
                if p >= SIGNIFICANT:
                    low, high = difference_interval(baseline_terms, terms)
                    rate = system.metrics["alignment"]["aer"]
                    baseline_rate = systems[0].metrics["alignment"]["aer"]
                    lines.append(
                        f"{system.name}: AER {rate:.1f} against {baseline_rate:.1f} % on {len(counts)} sentences may "
                        f"not differ at all (p {p:.2f}; 95 % interval of the difference {100 * float(low[0]):+.1f} to "
                        f"{100 * float(high[0]):+.1f})"
                    )
        elif "alignment" in system.metrics:
            lines.append(f"{system.name}: no interval of AER: {system.evaluation.sentence_alignment.name} is missing")
        rows.append(row)
    return rows, lines

"""Compares evaluations: scores with intervals, paired bootstrap tests, and the cost of each run."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import sacrebleu
from sacrebleu.significance import PairedTest

from ..errors import InputError
from ..metrics.bleu import check_bleu_tokenizer, make_bleu
from .evaluated import Evaluated


def compare(systems: list[Evaluated], samples: int) -> pd.DataFrame:
    """Compares evaluations of the same text.

    Returns:
        A row for each: BLEU and chrF with the half width of the 95 % confidence interval of a bootstrap, the p-values
            of a paired bootstrap test against the first (Koehn 2004), and the cost of the run.

    Raises:
        InputError: the evaluations are not of the same text, or were made in different ways.
    """
    for other in systems[1:]:
        _check_comparable(other, systems[0])
    first = systems[0]
    check_bleu_tokenizer(first.bleu_tokenizer, str(first.evaluation.metrics))
    translations: list[tuple[str, Sequence[str]]] = [
        (f"{i}", system.table["translation"].tolist()) for i, system in enumerate(systems)
    ]
    metrics = {"BLEU": make_bleu(first.bleu_tokenizer), "chrF2": sacrebleu.CHRF()}
    references = [first.table["reference"].tolist()]
    _, scores = PairedTest(translations, metrics, references, test_type="bs", n_samples=samples)()
    rows = []
    for i, system in enumerate(systems):
        row: dict[str, Any] = {"": system.name}
        for metric, name in (("BLEU", "BLEU"), ("chrF2", "chrF")):
            result: Any = scores[metric][i]
            # For equal translations sacreBLEU returns a small p-value, since none of its samples differs by more.
            is_same = i > 0 and translations[i][1] == translations[0][1]
            row |= {name: result.score, f"{name} ±": result.ci, f"{name} p": 1.0 if is_same else result.p_value}
        rows.append(row | system.facts())
    return pd.DataFrame(rows)


def _check_comparable(other: Evaluated, first: Evaluated) -> None:
    for side in ("source", "reference"):
        if other.table[side].tolist() != first.table[side].tolist():
            raise InputError(
                f"{other.evaluation.root} and {first.evaluation.root} have different {side} sentences; "
                "compare evaluations of one set"
            )
    tokenizers = [other.bleu_tokenizer, first.bleu_tokenizer]
    if tokenizers[0] != tokenizers[1]:
        raise InputError(
            f"{other.name} and {first.name} have BLEU by different tokenizers, {' and '.join(tokenizers)}, so it "
            "cannot be compared; evaluate both with one --bleu_tokenizer"
        )
    modes = [other.mode, first.mode]
    if None not in modes and modes[0] != modes[1]:
        forced, translated = (other, first) if modes[0] == "forced" else (first, other)
        raise InputError(
            f"{forced.evaluation.root} is forced, that is over the references, and {translated.evaluation.root} is "
            "over the model's translations; compare evaluations of one kind"
        )


def means_over_seeds(systems: list[Evaluated], table: pd.DataFrame) -> list[str]:
    """Returns a line for every group of runs that differ in nothing but their seed; each seed counts once."""
    groups: dict[str, dict[int, int]] = {}
    for i, system in enumerate(systems):
        groups.setdefault(system.key_without_seed(), {}).setdefault(system.config.run.seed, i)
    lines = []
    for rows in groups.values():
        if len(rows) > 1:
            first, *others = rows.values()
            bleu, chrf = (table[name].iloc[[first, *others]] for name in ("BLEU", "chrF"))
            lines.append(
                f"{systems[first].name} and {len(others)} more, seeds {', '.join(map(str, rows))}: "
                f"mean BLEU {bleu.mean():.2f}, from {bleu.min():.2f} to {bleu.max():.2f}; mean chrF {chrf.mean():.2f}"
            )
    return lines


DIGITS = {
    **dict.fromkeys(("BLEU", "BLEU ±", "chrF", "chrF ±", "AER"), 2),
    **dict.fromkeys(("BLEU p", "chrF p"), 3),
    "loss": 4,
    "minutes": 1,
    "parameters": 0,
    "updates": 0,
}


def as_text(table: pd.DataFrame) -> str:
    """Returns the table as it is printed."""
    shown = table.copy()
    for name, digits in DIGITS.items():
        shown[name] = ["" if pd.isna(value) else f"{value:,.{digits}f}" for value in table[name]]
    if table["AER"].isna().all():  # no gold alignments
        shown = shown.drop(columns="AER")
    return shown.to_string(index=False)

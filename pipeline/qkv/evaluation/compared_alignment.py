"""The alignment error rates of evaluations side by side: intervals, and whether they differ."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ..alignment.error_rate import LINK_COUNTS, error_terms
from ..errors import InputError
from ..files.run_directory import EvaluationDirectory
from ..statistics.resampling import ratio_interval
from ..statistics.significance import difference_interval, randomisation_p


class Scored(Protocol):
    """What is compared: its name in the table, its folder, its metrics."""

    @property
    def name(self) -> str: ...
    @property
    def evaluation(self) -> EvaluationDirectory: ...
    @property
    def metrics(self) -> dict[str, Any]: ...


def compare_error_rates(systems: Sequence[Scored], samples: int) -> tuple[list[dict[str, float]], list[str]]:
    """Compares the alignment error rates of evaluations of the same sentences, each with its own chosen readout.

    Returns:
        For each the columns `AER ±`, half the width of the 95 % interval of a bootstrap over sentences in percent, and
            `AER p` against the first by approximate randomisation; not-a-number for evaluations without the file
            of what each sentence counts.
        Lines that say of which differences nothing is known, and of which runs there is no interval.

    Raises:
        InputError: a file is damaged.
    """
    counts = [read_counts(system) for system in systems]
    rows, lines = [], []
    for system, own in zip(systems, counts, strict=True):
        row = {"AER ±": np.nan, "AER p": np.nan}
        if own is not None:
            low, high = ratio_interval(*_terms(own))
            row["AER ±"] = 100 * float(high[0] - low[0]) / 2
            if own is not counts[0] and counts[0] is not None and _same_gold(own, counts[0]):
                row["AER p"] = float(randomisation_p(_terms(counts[0]), _terms(own), samples=samples)[0])
                if row["AER p"] >= SIGNIFICANT:
                    lines.append(_explain(system, systems[0], own, counts[0], row["AER p"]))
        elif "alignment" in system.metrics:
            lines.append(
                f"{system.name}: no interval of its AER, for {system.evaluation.sentence_alignment.name} is missing"
            )
        rows.append(row)
    return rows, lines


def _explain(system: Scored, first: Scored, own: np.ndarray, of_first: np.ndarray, p: float) -> str:
    low, high = (100 * float(end[0]) for end in difference_interval(_terms(of_first), _terms(own)))
    rates = [scored.metrics["alignment"]["aer"] for scored in (system, first)]
    return (
        f"{system.name}: AER {rates[0]:.1f} against {rates[1]:.1f} % on {len(own)} sentences may not differ at all "
        f"(p {p:.2f}; 95 % interval of the difference {low:+.1f} to {high:+.1f})"
    )


def _terms(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    above, below = error_terms(counts)
    return above[:, None], below[:, None]


def _same_gold(one: np.ndarray, other: np.ndarray) -> bool:
    sure = LINK_COUNTS.index("sure")
    return np.array_equal(one[:, sure], other[:, sure])


def read_counts(system: Scored) -> np.ndarray | None:
    """Returns `(N, 4)`, the counts of each sentence at the chosen layer and head; None where none are kept."""
    readout, path = system.metrics.get("alignment"), system.evaluation.sentence_alignment
    if not readout or not path.is_file():
        return None
    try:
        table = pd.read_csv(path, dtype={"head": str} | dict.fromkeys(("id", "layer", *LINK_COUNTS), int))
        chosen = table[(table["layer"] == readout["layer"]) & (table["head"] == str(readout["head"]))]
        counts = chosen[list(LINK_COUNTS)].to_numpy(float)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that evaluate.py writes: {error}; evaluate again") from None
    if len(counts) != readout.get("sentences"):
        raise InputError(
            f"{path}: expected {readout.get('sentences')} sentences of layer {readout['layer']}, head "
            f"{readout['head']}, found {len(counts)}; evaluate again"
        )
    return counts


SIGNIFICANT = 0.05

"""Compares evaluated runs: scores with intervals, paired bootstrap tests, and the cost of each run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import sacrebleu
from sacrebleu.significance import PairedTest

from ..config import RunConfig
from ..config.started_run import load_started_run
from ..errors import InputError
from ..invocation import invocation
from ..metrics.bleu import make_bleu
from ..run_directory import EvaluationDirectory, RunDirectory
from .translations import read_translations


@dataclass(frozen=True)
class Evaluated:
    """An evaluation, and the run that was evaluated.

    Args:
        name: its name in the table.
        run: the run's folder.
        evaluation: the evaluation's folder.
    """

    name: str
    run: RunDirectory
    evaluation: EvaluationDirectory

    @classmethod
    def find(cls, path: Path, set_name: str) -> "Evaluated":
        """Finds the evaluation of a run on a set; `path` is the run's folder, or that of the evaluation itself.

        Raises:
            InputError: there is no such evaluation.
        """
        is_evaluation = path.parent.name == "evaluations"
        run = RunDirectory.open(path.parents[1] if is_evaluation else path)
        evaluation = EvaluationDirectory(path) if is_evaluation else run.evaluation(set_name)
        for file in (evaluation.metrics, evaluation.translations):
            if not file.is_file():
                raise InputError(
                    f"{evaluation.root}: {file.name} is missing; evaluate the run first: "
                    f"{invocation('evaluate')} {run.root}"
                )
        return cls(str(path), run, evaluation)

    @cached_property
    def config(self) -> RunConfig:
        """The run's settings."""
        return load_started_run(self.run.config)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The evaluation's scores."""
        return _read_json(self.evaluation.metrics)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The evaluation's translations.

        Raises:
            InputError: the file is damaged, or there were no references.
        """
        table = read_translations(self.evaluation.translations)
        if "reference" not in table:
            raise InputError(
                f"{self.evaluation.translations}: no column 'reference'; evaluate with references to compare"
            )
        return table

    def key_without_seed(self) -> str:
        """Returns the settings by which runs that differ only in their seed are grouped."""
        settings = self.config.model_dump(mode="json")
        del settings["run"]
        decoding = {key: value for key, value in self.metrics.get("decoding", {}).items() if key != "batch_sentences"}
        return json.dumps([settings, self.metrics.get("search"), decoding], sort_keys=True)

    def facts(self) -> dict[str, Any]:
        """Returns the run's settings, sizes and costs that the table shows."""
        manifest = _read_json(self.run.manifest) if self.run.manifest.is_file() else {}
        last = self._last_history_row()
        decoding = self.metrics.get("decoding", {})
        beam = f" {decoding['beam_size']}" if self.metrics.get("search") == "beam" and decoding else ""
        return {
            "loss": self.metrics.get("loss"),
            "search": f"{self.metrics.get('search', '')}{beam}",
            "seed": self.config.run.seed,
            "parameters": manifest.get("parameters"),
            "updates": last.get("update"),
            "minutes": last.get("minutes"),
        }

    def _last_history_row(self) -> Any:
        if not self.run.history.is_file():
            return {}
        try:
            history = pd.read_csv(self.run.history)
        except (ValueError, OSError) as error:
            raise InputError(f"{self.run.history}: not the table that train.py writes: {error}") from None
        return history.iloc[-1] if len(history) else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}; evaluate the run again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object; evaluate the run again")
    return value


def compare(systems: list[Evaluated], samples: int) -> pd.DataFrame:
    """Compares evaluations of the same text.

    Returns:
        A row for each: BLEU and chrF with the half width of the 95 % confidence interval of a bootstrap, the p-values
            of a paired bootstrap test against the first (Koehn 2004), and the cost of the run.

    Raises:
        InputError: the evaluations are not of the same text.
    """
    first = systems[0]
    for other in systems[1:]:
        for side in ("source", "reference"):
            if other.table[side].tolist() != first.table[side].tolist():
                raise InputError(
                    f"{other.evaluation.root} and {first.evaluation.root} have different {side} sentences; "
                    "compare evaluations of one set"
                )
        tokenizers = [system.config.data.scoring_tokenizer for system in (other, first)]
        if tokenizers[0] != tokenizers[1]:
            raise InputError(
                f"{other.name} and {first.name} have BLEU by different tokenizers, {' and '.join(tokenizers)}, so it "
                "cannot be compared"
            )
    translations: list[tuple[str, Sequence[str]]] = [
        (f"{i}", system.table["translation"].tolist()) for i, system in enumerate(systems)
    ]
    metrics = {"BLEU": make_bleu(first.config.data.scoring_tokenizer), "chrF2": sacrebleu.CHRF()}
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


def means_over_seeds(systems: list[Evaluated], table: pd.DataFrame) -> list[str]:
    """Returns a line for every group of runs that differ only in their seed."""
    groups: dict[str, list[int]] = {}
    for i, system in enumerate(systems):
        groups.setdefault(system.key_without_seed(), []).append(i)
    lines = []
    for rows in groups.values():
        if len(rows) > 1:
            bleu = table["BLEU"].iloc[rows]
            seeds = ", ".join(str(seed) for seed in table["seed"].iloc[rows])
            lines.append(
                f"{systems[rows[0]].name} and {len(rows) - 1} more, seeds {seeds}: "
                f"mean BLEU {bleu.mean():.2f}, from {bleu.min():.2f} to {bleu.max():.2f}"
            )
    return lines


DIGITS = {
    **dict.fromkeys(("BLEU", "BLEU ±", "chrF", "chrF ±"), 2),
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
    return shown.to_string(index=False)

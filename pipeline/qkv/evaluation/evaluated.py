"""An evaluation that was written before, read back with what is known of its run."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..config import RunConfig
from ..config.run import load_started_run
from ..errors import InputError, invocation
from ..files.run_directory import EvaluationDirectory, RunDirectory
from .metrics_file import read_manifest, read_metrics
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
    def of(cls, name: str, run: RunDirectory, evaluation: EvaluationDirectory) -> "Evaluated":
        """Checks that the evaluation is there.

        Raises:
            InputError: it is not.
        """
        for file in (evaluation.metrics, evaluation.translations):
            if not file.is_file():
                raise InputError(
                    f"{evaluation.root}: {file.name} is missing; evaluate the run first: "
                    f"{invocation('evaluate')} {run.root}"
                )
        return cls(name, run, evaluation)

    @cached_property
    def config(self) -> RunConfig:
        """The run's settings."""
        return load_started_run(self.run.config)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The evaluation's scores."""
        return read_metrics(self.evaluation.metrics)

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

    @property
    def members(self) -> list[dict[str, Any]]:
        """What is said of each model of an ensemble; empty for a single run."""
        return self.metrics.get("members", [])

    @property
    def seed(self) -> int | None:
        """The run's seed; None for an ensemble."""
        return None if self.members else self.config.run.seed

    @property
    def bleu_tokenizer(self) -> str:
        """How BLEU splits the translations into words."""
        return self.metrics.get("bleu_tokenizer") or self.config.data.scoring_tokenizer

    @property
    def mode(self) -> str | None:
        """Whether attention is over the references (`forced`) or the translations; None for evaluations of versions
        that did not say it."""
        return self.metrics.get("mode")

    def key_without_seed(self) -> str:
        """Returns everything in which evaluations must be equal to differ only in the seed of their runs."""
        settings = self.config.model_dump(mode="json", exclude={"run", "inspection"})
        decoding = {key: value for key, value in self.metrics.get("decoding", {}).items() if key != "batch_sentences"}
        # The kind of checkpoint: `last` is a checkpoint of another update in each run.
        checkpoint = Path(self.metrics.get("checkpoint", "model.keras")).stem.partition("-")[0]
        corpus = self._manifest.get("data_sha256")
        evaluated = [self.bleu_tokenizer, self.mode or "translated", checkpoint, self.metrics.get("search"), decoding]
        return json.dumps([settings, corpus, evaluated, *self.members], sort_keys=True)

    def facts(self) -> dict[str, Any]:
        """Returns further scores of the evaluation, and the sizes and costs of its run, which the table shows; of an
        ensemble the parameters of all models."""
        last = {} if self.members else self._last_history_row()
        parameters = sum(member["parameters"] for member in self.members) or self._manifest.get("parameters")
        return {
            "AER": self.metrics.get("alignment", {}).get("aer"),
            "loss": self.metrics.get("loss"),
            "search": self._search(),
            "seed": self.seed,
            "parameters": parameters,
            "updates": last.get("update"),
            "minutes": last.get("minutes"),
        }

    def _search(self) -> str:
        name, decoding = self.metrics.get("search", ""), self.metrics.get("decoding", {})
        if self.members:
            name = f"ensemble of {len(self.members)}, {name}"
        if not name.endswith("beam") or not decoding:
            return name
        penalty = decoding.get("length_penalty", 1.0)
        return f"{name} {decoding.get('beam_size', '')}" + (f", length penalty {penalty:g}" if penalty != 1 else "")

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return read_manifest(self.run.manifest) if self.run.manifest.is_file() else {}

    def _last_history_row(self) -> Any:
        if not self.run.history.is_file():
            return {}
        try:
            history = pd.read_csv(self.run.history)
        except (ValueError, OSError) as error:
            raise InputError(f"{self.run.history}: not the table that train.py writes: {error}") from None
        for name in ("update", "minutes"):
            if not pd.api.types.is_numeric_dtype(history.get(name, pd.Series(dtype=float))):
                raise InputError(f"{self.run.history}: not the table that train.py writes: {name} is not a number")
        return history.iloc[-1] if len(history) else {}

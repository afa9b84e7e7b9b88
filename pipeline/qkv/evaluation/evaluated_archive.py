"""An attention archive without a run, as comparisons see it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import InputError
from ..files.run_directory import EvaluationDirectory, find_evaluation
from ..inspection.archive import AttentionArchive
from .archive_scores import archive_metrics, score_alignments
from .evaluated import Evaluated
from .metrics_file import read_metrics


@dataclass(frozen=True)
class EvaluatedArchive:
    """What a comparison asks of an archive; see `Evaluated`.

    Args:
        name: its name in the table.
        evaluation: its folder.
    """

    name: str
    evaluation: EvaluationDirectory

    seed = None

    @cached_property
    def archive(self) -> AttentionArchive:
        """The archive."""
        return AttentionArchive(self.evaluation.attention)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Its scores: those that `qkv measure` has written, or else computed now."""
        if self.evaluation.metrics.is_file():
            return read_metrics(self.evaluation.metrics)
        readouts = score_alignments(self.archive, self.name, self.archive.gold)
        return archive_metrics(self.archive, self.name, readouts, bleu_tokenizer=None)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The sentences and their references, and the model's translations unless the targets were given.

        Raises:
            InputError: there are no sentences, or a translation has no reference.
        """
        if not len(self.archive):
            raise InputError(f"{self.name}: no sentences to compare")
        lines = [self.archive.sentence(id_) for id_ in self.archive.ids]
        if self.mode == "forced":
            return pd.DataFrame(
                {"source": [line["source"] for line in lines], "reference": [line["hypothesis"] for line in lines]}
            )
        if without := [line["id"] for line in lines if line["reference"] is None]:
            raise InputError(f"{self.name}: sentence {without[0]} has no reference; write the archive with references")
        names = {"source": "source", "reference": "reference", "translation": "hypothesis"}
        return pd.DataFrame({column: [line[name] for line in lines] for column, name in names.items()})

    @property
    def bleu_tokenizer(self) -> str | None:
        """How BLEU splits the translations into words; None for the way of what it is compared with."""
        return self.metrics.get("bleu_tokenizer")

    @property
    def mode(self) -> str | None:
        """Whether attention is over given targets (`forced`) or over the model's translations."""
        return self.metrics.get("mode")

    def key_without_seed(self) -> str:
        """Returns a key that nothing else has: nothing is known of seeds."""
        return str(self.evaluation.root.resolve())

    def facts(self) -> dict[str, Any]:
        """Returns further scores; nothing is known of what the model has cost."""
        unknown = dict.fromkeys(("seed", "parameters", "updates", "minutes"))
        return {
            "AER": self.metrics.get("alignment", {}).get("aer"),
            "loss": self.metrics.get("loss"),
            "search": self.metrics.get("search", ""),
            **unknown,
        }


def find_evaluated(path: Path, set_name: str) -> Evaluated | EvaluatedArchive:
    """Finds what is compared: an evaluation of a run, or an archive without a run; see `find_evaluation`.

    Raises:
        InputError: there is none.
    """
    run, evaluation = find_evaluation(path, set_name)
    return EvaluatedArchive(str(path), evaluation) if run is None else Evaluated.of(str(path), run, evaluation)

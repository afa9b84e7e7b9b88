"""An ensemble: several finished runs whose models translate together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..config import RunConfig
from ..config.ensemble import check_members, member_names
from ..model.ensemble import Ensemble
from .trained_run import TrainedRun, digest_weights, load_run


@dataclass(frozen=True)
class TrainedEnsemble(TrainedRun):
    """An ensemble that is used like a single run. Its model is an `Ensemble` of the models of all runs.

    Its folder, settings and tokenizer are those of the first run, except `max_positions`, which is the smallest of all
    runs.

    Args:
        runs: all runs by their names, including the first run.
    """

    runs: Mapping[str, TrainedRun] = field(default_factory=dict)

    def with_config(self, config: RunConfig) -> "TrainedRun":
        """Returns the ensemble with other settings of decoding. `max_positions` stays the smallest of all runs.

        Raises:
            InputError: the vocabulary has no tag `decoding.tag`.
        """
        model = config.model.model_copy(update={"max_positions": self.config.model.max_positions})
        return super().with_config(config.model_copy(update={"model": model}))

    @cached_property
    def members(self) -> dict[str, TrainedRun]:
        """The runs by their names, with the settings of the ensemble.

        Each run keeps its settings of `model`, except `max_positions`, and its `inspection.attention`.
        """
        members = {}
        for name, run in self.runs.items():
            inspection = self.config.inspection.model_copy(update={"attention": run.config.inspection.attention})
            model = run.config.model.model_copy(update={"max_positions": self.config.model.max_positions})
            config = self.config.model_copy(update={"model": model, "inspection": inspection})
            members[name] = run.with_config(config)
        return members


def load_runs(roots: Sequence[Path], checkpoint: str = "best", tuned: bool = True) -> TrainedRun:
    """Loads a run, or several runs as an ensemble.

    Args:
        roots: the folders of the runs. A folder may be listed twice.
        checkpoint, tuned: see `run.trained_run.load_run`; they apply to each run.

    Returns:
        The run, or a `TrainedEnsemble` if there are several roots.

    Raises:
        InputError: as for `load_run`, or the models cannot translate together.
    """
    if len(roots) == 1:
        return load_run(roots[0], checkpoint, tuned)
    loaded = {root: load_run(root, checkpoint, tuned) for root in dict.fromkeys(roots)}
    check_members([run.directory for run in loaded.values()])
    runs = dict(zip(member_names(roots), (loaded[root] for root in roots), strict=True))
    first = loaded[roots[0]]
    fewest = min(run.config.model.max_positions for run in loaded.values())
    config = first.config.model_copy(update={"model": first.config.model.model_copy(update={"max_positions": fewest})})
    model = Ensemble([run.model for run in runs.values()])
    digest = digest_weights(model)
    return TrainedEnsemble(first.directory, config, first.tokenizer, model, first.weights, digest=digest, runs=runs)

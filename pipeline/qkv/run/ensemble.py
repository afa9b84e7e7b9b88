"""Several finished runs whose models translate together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..config import RunConfig
from ..config.ensemble import check_members, member_names
from ..model.ensemble import Ensemble
from .trained_run import TrainedRun, load_run


@dataclass(frozen=True)
class TrainedEnsemble(TrainedRun):
    """An ensemble, as the run that evaluation and translation need: the first run, with all models as one.

    It has the folder and the settings of the first run; sentences have as many tokens as every model accepts.

    Args:
        runs: the runs by their names, the first one among them.
    """

    runs: Mapping[str, TrainedRun] = field(default_factory=dict)

    def with_config(self, config: RunConfig) -> "TrainedRun":
        """Returns the ensemble with other settings of decoding; the longest sentence stays the models'."""
        model = config.model.model_copy(update={"max_positions": self.config.model.max_positions})
        return super().with_config(config.model_copy(update={"model": model}))

    @cached_property
    def members(self) -> dict[str, TrainedRun]:
        """The runs by their names, with the settings of the ensemble, but their own models and attention to write."""
        members = {}
        for name, run in self.runs.items():
            own = run.config
            inspection = self.config.inspection.model_copy(update={"attention": own.inspection.attention})
            model = own.model.model_copy(update={"max_positions": self.config.model.max_positions})
            config = self.config.model_copy(update={"model": model, "inspection": inspection})
            members[name] = run.with_config(config)
        return members


def load_runs(roots: Sequence[Path], checkpoint: str = "best", tuned: bool = True) -> TrainedRun:
    """Loads a run, or several as an ensemble.

    Args:
        roots: the runs' folders; one may be there twice.
        checkpoint, tuned: of each run, see `load_run`.

    Raises:
        InputError: as `load_run`, or the models cannot translate together.
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
    return TrainedEnsemble(first.directory, config, first.tokenizer, model, first.weights, runs=runs)

"""The progress of a run, which its checkpoints contain."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from .step import TrainStepMetrics

Count = Annotated[int, Field(ge=0, lt=1 << 31)]
Number = int | float
Finite = Annotated[float, Field(allow_inf_nan=False)]
_FIELDS = len(TrainStepMetrics._fields)


@dataclass
class Progress:
    """The progress of a run.

    Args:
        update: number of updates made.
        epoch: the current pass over the data, from 0.
        batch: number of batches of the current pass that were trained on.
        seconds: time spent in training, without interruptions.
        best_metric: the best value so far of the metric that chooses the best checkpoint; None before the first
            validation.
        best_update: the number of updates at the best validation; None before the first validation.
        validations_without_gain: number of validations since the best one.
        history: the logs of each validation, oldest first.
        unread: loss, tokens and gradient norm of each update since the last logs.
        last_logs: the means in the last logs of training.
        total_updates: the last estimate of the update at which training ends, see `TimeBudget`; None without an
            estimate.
        loss_scale: the state of the loss scale in float16, see `LossScale.state`; empty in other precisions.
        batch_tokens: the size of batches if `batches.batch_tokens` is `auto`, in tokens; None otherwise.
        packed: True if the rows of the run's batches have several pairs each; None before the run has begun, and in
            checkpoints of versions without packed batches, which did not pack.
        split_positions: a batch of this number of positions, padding included, did not fit into memory. Batches of
            this size or larger are computed in parts. None if all batches have fitted.
        split_updates: number of updates that were computed in parts.
        origin: the run's fingerprint, see `text.corpora.provenance.origin_of`.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    update: Count = 0
    epoch: Count = 0
    batch: Count = 0
    seconds: Annotated[float, Field(ge=0, lt=1 << 31)] = 0.0
    best_metric: Finite | None = None
    best_update: Count | None = None
    validations_without_gain: Count = 0
    history: list[dict[str, Number]] = field(default_factory=list)
    unread: list[Annotated[list[Number], Field(min_length=_FIELDS, max_length=_FIELDS)]] = field(default_factory=list)
    last_logs: dict[str, Number] = field(default_factory=dict)
    total_updates: Count | None = None
    loss_scale: dict[str, Annotated[Number, Field(ge=0, lt=1 << 31)]] = field(default_factory=dict)
    batch_tokens: Count | None = None
    packed: bool | None = None
    split_positions: Count | None = None
    split_updates: Count = 0
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def totals(self) -> list[tuple[int, int]]:
        """All estimates of the total of updates, oldest first; an empty list before the first estimate.

        An item has the number of updates made before the estimate, and the estimated total. For the first estimate the
        number of updates is set to 0.
        """
        if self.total_updates is None:
            return []
        updates = [0, *(int(row["update"]) for row in self.history)]
        totals = [*(int(row.get("total_updates", self.total_updates)) for row in self.history), self.total_updates]
        return list(zip(updates, totals, strict=True))

    @property
    def best_validation(self) -> dict[str, Number]:
        """The logs of the best validation so far. There must be a validation."""
        return next(row for row in self.history if row["update"] == self.best_update)

    @classmethod
    def parse(cls, text: str) -> "Progress":
        """Parses the JSON text that a checkpoint contains.

        Raises:
            ValueError: the text is not JSON; or its keys, types or ranges are not those of the fields of this class; or
                its values contradict each other.
        """
        try:
            progress = _READER.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            location = "".join(f"{part}: " for part in first["loc"])
            raise ValueError(f"its progress is not valid: {location}{first['msg']}") from None
        if name := progress._contradiction():
            raise ValueError(f"its progress is not valid: {name}: {str(getattr(progress, name))[:40]}")
        return progress

    def _contradiction(self) -> str | None:
        """Returns the name of a field that contradicts the others; None if none does.

        Every epoch has at least one update, and one of the validations was the best.
        """
        updates = [row.get("update", -1) for row in self.history]
        scale = self.loss_scale
        is_consistent = {
            "epoch": self.epoch <= self.update,
            "history": all(0 <= update <= self.update for update in updates),
            "best_metric": (self.best_metric is None) == (not updates),
            "best_update": self.best_update in updates or (self.best_update is None and not updates),
            "loss_scale": not scale or (scale.keys() == {"scale", "good", "skipped"} and scale["scale"] > 0),
        }
        return next((name for name, consistent in is_consistent.items() if not consistent), None)


_READER: TypeAdapter[Progress] = TypeAdapter(Progress)

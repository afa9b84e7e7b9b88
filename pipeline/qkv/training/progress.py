"""The progress of a run, as its checkpoints say it."""

import math
from dataclasses import dataclass, field
from typing import Any

from ..files.json import parse_json


@dataclass
class Progress:
    """The progress of a run.

    Args:
        update: number of updates made.
        epoch: the current pass over the data, from 0.
        batch: number of batches of that pass that were trained on.
        seconds: time spent in training, without interruptions.
        best_metric: the best value so far of the metric by which the best checkpoint is chosen.
        best_update: the update that had it.
        validations_without_gain: number of validations since then.
        history: one row of logs for each validation.
        unread: loss, tokens and gradient norm of each update since the last logs.
        last_logs: the last logs of training.
        total_updates: the update at which training ends, once it is measured; None where it is not.
        loss_scale: the state of the scale of the loss in float16, see `LossScale.state`; empty in other precisions.
        batch_tokens: the size of batches, where it was found by trying; None where the config says it.
        split_positions: batches of as many positions, padding included, did not fit into memory, and larger ones are
            computed in parts; None as long as all have fitted.
        split_updates: number of updates that were computed in parts.
        origin: of which run it is, see `text.provenance.origin_of`.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_metric: float | None = None
    best_update: int | None = None
    validations_without_gain: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    unread: list[list[float]] = field(default_factory=list)
    last_logs: dict[str, float] = field(default_factory=dict)
    total_updates: int | None = None
    loss_scale: dict[str, float] = field(default_factory=dict)
    batch_tokens: int | None = None
    split_positions: int | None = None
    split_updates: int = 0
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def best_validation(self) -> dict[str, float]:
        """The row of the validation that was best so far."""
        return next(row for row in self.history if row["update"] == self.best_update)

    @classmethod
    def parse(cls, text: str) -> "Progress":
        """Parses the JSON of a checkpoint.

        Raises:
            TypeError, ValueError: it has other keys or types, or numbers that no training can reach.
        """
        values = parse_json(text)
        if not isinstance(values, dict):
            raise ValueError("its progress is no object")
        progress = cls(**values)
        if name := progress._fault():
            raise ValueError(f"its progress has no valid {name}: {str(values.get(name))[:40]}")
        return progress

    def _fault(self) -> str | None:
        """Returns the name of a field that no training can have, or None."""
        optional = {"best_update": self.best_update, "total_updates": self.total_updates}
        optional |= {"batch_tokens": self.batch_tokens, "split_positions": self.split_positions}
        counts = {"update": self.update, "batch": self.batch, "epoch": self.epoch}
        counts |= {"validations_without_gain": self.validations_without_gain, "split_updates": self.split_updates}
        counts |= {name: value for name, value in optional.items() if value is not None}
        are_valid = {name: type(value) is int and 0 <= value < 1 << 31 for name, value in counts.items()}
        are_valid |= {
            "seconds": _is_number(self.seconds) and 0 <= self.seconds < math.inf,
            "best_metric": self.best_metric is None
            or (_is_number(self.best_metric) and math.isfinite(self.best_metric)),
            "history": _are_rows(self.history) and all("update" in row for row in self.history),
            "unread": isinstance(self.unread, list) and all(map(_are_numbers, self.unread)),
            "last_logs": _are_rows([self.last_logs]),
            "loss_scale": _is_loss_scale(self.loss_scale),
            "origin": isinstance(self.origin, dict) and all(isinstance(one, str) for one in self.origin.values()),
        }
        if fault := next((name for name, is_valid in are_valid.items() if not is_valid), None):
            return fault
        # Every epoch has an update at least, and one of the validations was the best.
        relations = {
            "epoch": self.epoch <= self.update,
            "history": all(0 <= row["update"] <= self.update for row in self.history),
            "best_metric": (self.best_metric is None) == (not self.history),
            "best_update": any(row["update"] == self.best_update for row in self.history)
            or (self.best_update is None and not self.history),
        }
        return next((name for name, holds in relations.items() if not holds), None)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_loss_scale(state: Any) -> bool:
    return state == {} or (
        isinstance(state, dict)
        and state.keys() == {"scale", "good", "skipped"}
        and all(_is_number(value) and 0 <= value < 1 << 31 for value in state.values())
        and state["scale"] > 0
    )


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and len(values) == 3 and all(map(_is_number, values))


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, list) and all(isinstance(row, dict) and all(map(_is_number, row.values())) for row in rows)

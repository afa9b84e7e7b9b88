"""Schedules, optimizers and callbacks."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Schedule:
    """A course of the learning rate after warm-up.

    Attributes:
        meaning: for help texts.
        ends_at_zero: whether it falls to zero at `max_updates`, which it then needs.
        measures_total: whether it falls to zero at the updates that fit into `max_minutes`, which it then needs.
    """

    meaning: str
    ends_at_zero: bool = False
    measures_total: bool = False


SCHEDULE_INFO = {
    "inverse_sqrt": Schedule("falls with the inverse square root of the number of updates"),
    "linear": Schedule("falls linearly to zero at max_updates", ends_at_zero=True),
    "cosine": Schedule("falls along half a cosine wave to zero at max_updates", ends_at_zero=True),
    "constant": Schedule("stays at the peak"),
    "clock": Schedule(
        "falls linearly to zero at max_minutes: updates are timed, and the number that fits is estimated again at each "
        "validation",
        measures_total=True,
    ),
}
OPTIMIZER_MEANINGS = {
    "adam": "Kingma and Ba 2015",
    "muon": "orthogonal updates for matrices (Jordan et al. 2024), Adam for embeddings and vectors",
}


@dataclass(frozen=True)
class Callback:
    """A callback that configs can name.

    Attributes:
        meaning: for help texts.
        defaults: arguments that it gets unless a config gives them.
        files: arguments that name a file, which is in the folder of the run.
    """

    meaning: str
    defaults: tuple[tuple[str, Any], ...] = ()
    files: tuple[str, ...] = ()


CALLBACK_INFO = {
    "CSVLogger": Callback("Keras' table of the metrics at the end of each epoch", (("append", True),), ("filename",)),
    "TerminateOnNaN": Callback("Keras' end of a training whose loss is not a number"),
}
UNSUITABLE_CALLBACKS = {
    "BackupAndRestore": "every run resumes; see training.checkpoint_every_minutes",
    "CallbackList": "list its callbacks themselves",
    "LearningRateScheduler": "use training.schedule, or register a schedule in a --plugins file",
    "OrbaxCheckpoint": "use training.keep_checkpoints and training.checkpoint_every_minutes",
    "ProgbarLogger": "training prints its progress; see training.log_every_updates",
    "ReduceLROnPlateau": "use training.schedule",
    "SwapEMAWeights": "use training.average_checkpoints",
    "TensorBoard": "every run writes for TensorBoard; see inspection",
}
"""Callbacks of Keras that the training loop cannot call, from a config or from Python, and what to use instead."""
REFUSED_CALLBACKS = {
    **UNSUITABLE_CALLBACKS,
    "EarlyStopping": "use training.early_stopping",
    "History": "history.csv in the run's folder has every validation",
    "LambdaCallback": "functions are code: register a callback in a --plugins file",
    "ModelCheckpoint": "use training.keep_checkpoints, training.early_stopping.metric and "
    "training.checkpoint_every_minutes",
    "RemoteMonitor": "a config alone opens no connection: register a callback in a --plugins file",
}
"""Callbacks of Keras that configs cannot name, and what to use instead."""

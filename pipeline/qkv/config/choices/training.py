"""Names for training: schedules, optimizers and callbacks."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScheduleInfo:
    """Properties of a schedule of the learning rate after warm-up.

    Attributes:
        meaning: a description for help texts.
        ends_at_zero: True if the rate falls to zero at `max_updates`, which must then be set.
        measures_total: True if the rate falls to zero at the end of `max_minutes`, which must then be set. The number
            of updates until then is estimated from their time.
    """

    meaning: str
    ends_at_zero: bool = False
    measures_total: bool = False


SCHEDULE_INFO = {
    "inverse_sqrt": ScheduleInfo("falls with the inverse square root of the number of updates"),
    "linear": ScheduleInfo("falls linearly to zero at max_updates", ends_at_zero=True),
    "cosine": ScheduleInfo("falls along half a cosine wave to zero at max_updates", ends_at_zero=True),
    "constant": ScheduleInfo("stays at the peak"),
    "clock": ScheduleInfo(
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
class CallbackInfo:
    """Properties of a callback that configs can name.

    Attributes:
        meaning: a description for help texts.
        defaults: (name, value) pairs of arguments, which a config may replace.
        files: the names of arguments that are the name of a file in the run's folder.
    """

    meaning: str
    defaults: tuple[tuple[str, Any], ...] = ()
    files: tuple[str, ...] = ()


CALLBACK_INFO = {
    "CSVLogger": CallbackInfo(
        "writes Keras' table of the metrics at the end of each epoch", (("append", True),), ("filename",)
    ),
    "TerminateOnNaN": CallbackInfo("ends a training whose loss is NaN"),
}
UNSUITABLE_CALLBACKS = {
    "BackupAndRestore": "every run can be resumed; see training.checkpoint_every_minutes",
    "CallbackList": "list its callbacks one by one",
    "LearningRateScheduler": "use training.schedule, or register a schedule in a --plugins file",
    "OrbaxCheckpoint": "use training.keep_checkpoints and training.checkpoint_every_minutes",
    "ProgbarLogger": "training prints its progress; see training.log_every_updates",
    "ReduceLROnPlateau": "use training.schedule",
    "SwapEMAWeights": "use training.average_checkpoints",
    "TensorBoard": "every run writes for TensorBoard; see inspection",
}
"""Callbacks of Keras that the training loop cannot call, with advice for the message. Neither config nor Python can use
them."""
REFUSED_CALLBACKS = {
    **UNSUITABLE_CALLBACKS,
    "EarlyStopping": "use training.early_stopping",
    "History": "history.csv in the run's folder has every validation",
    "LambdaCallback": "functions are code: register a callback in a --plugins file",
    "ModelCheckpoint": "use training.keep_checkpoints, training.early_stopping.metric and "
    "training.checkpoint_every_minutes",
    "RemoteMonitor": "a config alone opens no connection: register a callback in a --plugins file",
}
"""Callbacks of Keras that configs cannot name, with advice for the message."""

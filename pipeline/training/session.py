"""What the training loop holds from its start to its end or interruption."""

from dataclasses import dataclass

import keras

from .checkpoint import Progress
from .meter import TrainingClock, TrainingMeter


@dataclass
class Session:
    """The loop from its start to its end or interruption.

    Args:
        progress: of the whole run.
        events: the callbacks.
        clock: measures the time of training.
        meter: averages the updates since the last logs.
        saved_at: seconds of training at the last checkpoint.
    """

    progress: Progress
    events: keras.callbacks.CallbackList
    clock: TrainingClock
    meter: TrainingMeter
    saved_at: float

    def seconds(self) -> float:
        """Waits for the device and returns the seconds of training."""
        self.meter.wait()
        return self.clock.seconds()

"""What the training loop holds from its start to its end or interruption."""

from dataclasses import dataclass

import keras

from .checkpoint import Progress
from .meter import TrainingClock, TrainingMeter
from .updates import Updates


@dataclass
class Session:
    """The loop from its start to its end or interruption.

    Args:
        progress: of the whole run.
        events: the callbacks.
        clock: measures the time of training.
        meter: averages the updates since the last logs.
        updates: makes them.
        saved_at: seconds of training at the last checkpoint.
    """

    progress: Progress
    events: keras.callbacks.CallbackList
    clock: TrainingClock
    meter: TrainingMeter
    updates: Updates
    saved_at: float

    def rehearse_callbacks(self) -> None:
        """Calls `rehearse` of callbacks that have it: it takes as long as their `on_test_end`, and leaves nothing."""
        for callback in self.events.callbacks:
            if hasattr(callback, "rehearse"):
                callback.rehearse()

    def seconds(self) -> float:
        """Waits for the device and returns the seconds of training."""
        self.meter.wait()
        return self.clock.seconds()

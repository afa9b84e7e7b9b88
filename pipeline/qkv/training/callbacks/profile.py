"""Runs a few updates under TensorFlow's profiler, for TensorBoard's PROFILE page."""

from pathlib import Path

import keras
import tensorflow as tf

WARM_UP = 10  # updates before the profile: the first ones trace graphs and fill caches


class Profile(keras.callbacks.Callback):
    """Profiles some updates of a training, after its first `WARM_UP` ones.

    Args:
        folder: the folder of the event files.
        updates: number of updates to profile.
    """

    def __init__(self, folder: Path, updates: int) -> None:
        super().__init__()
        self.folder = folder
        self.updates = updates
        self.seen = 0
        self.running = False

    def on_train_batch_begin(self, batch, logs=None):
        if self.seen == WARM_UP:
            tf.profiler.experimental.start(str(self.folder))
            self.running = True
        elif self.seen == WARM_UP + self.updates:
            self._stop()
        self.seen += 1

    def on_train_end(self, logs=None):
        self._stop()

    def _stop(self) -> None:
        if self.running:
            tf.profiler.experimental.stop()
            self.running = False

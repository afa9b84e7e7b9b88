"""Reads the files of whole runs for their tests."""

import zipfile

import numpy as np
import pandas as pd
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

TIMES = ["minutes", "tokens_per_second"]  # all else of a run depends on text, settings and seed alone


def state_at(run, update):
    """Every array of a checkpoint: weights, optimizer, dropout's random numbers."""
    with np.load(run / "checkpoints" / f"update-{update:08d}.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "progress"}


def assert_same_state(these, those):
    assert list(these) == list(those)
    for name, array in these.items():
        np.testing.assert_array_equal(array, those[name], err_msg=name)


def history_of(run):
    return pd.read_csv(run / "history.csv").drop(columns=TIMES).set_index("update")


def weights_in(path):
    """The arrays of a model.keras, byte for byte."""
    with zipfile.ZipFile(path) as archive:
        return archive.read("model.weights.h5")


def events_of(run):
    """What TensorBoard reads, all of it."""
    events = EventAccumulator(str(run / "tensorboard"))
    return events.Reload()

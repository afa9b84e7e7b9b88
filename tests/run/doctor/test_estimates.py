"""Estimates of time and room from a few updates and the settings."""

import math

import numpy as np
import pytest

from qkv.run.doctor import TIMED_UPDATES, checkpoint_bytes, nearest_limit, state_bytes, time_step
from qkv.training.step import TrainStepMetrics
from qkv.training.stopping import Limits


@pytest.mark.parametrize(
    ("limits", "nearest"),
    [
        (Limits(max_updates=90), ("updates", 3.0)),
        (Limits(max_updates=900, max_epochs=4), ("epochs", 8.0)),
        (Limits(max_updates=900, max_epochs=4, max_minutes=5), ("minutes", 5)),
        (Limits(), ("updates", math.inf)),
    ],
)
def test_the_nearest_limit_is_the_one_that_ends_training_first(limits, nearest):
    assert nearest_limit(limits, updates_per_epoch=60, update_seconds=2.0) == nearest


class Step:
    """A step whose updates take a given time of a clock that is not the machine's."""

    def __init__(self, monkeypatch, seconds, tracing=0.0):
        self.now = 0.0
        self.seconds = seconds
        self.tracing = tracing
        monkeypatch.setattr("qkv.run.doctor.time.monotonic", lambda: self.now)

    def __call__(self, batch):
        self.now += self.seconds
        return TrainStepMetrics(0.0, 7.0, 0.0)

    def make_several(self, batches):
        self.now += self.tracing + len(batches) * self.seconds
        self.tracing = 0.0
        return TrainStepMetrics(*(np.full(len(batches), value) for value in (0.0, 7.0, 0.0)))


@pytest.mark.parametrize(
    ("batches", "seconds", "several", "updates"),
    [
        (3, 1.0, 1, 3),
        (99, 0.1, 1, TIMED_UPDATES),
        (9999, 1 / 256, 1, 257),  # not before a second has passed
        (99, 4.0, 1, 4),  # nor after twelve
        (9999, 1 / 256, 16, 272),
        (40, 1 / 256, 16, 24),  # the first call is not timed
    ],
)
def test_a_step_is_timed_over_the_first_batches(batches, seconds, several, updates, monkeypatch):
    step = Step(monkeypatch, seconds, tracing=1000.0)
    update_seconds, tokens_per_second, timed = time_step(step, [None] * batches, several)
    assert timed == updates
    assert update_seconds == pytest.approx(seconds)
    assert tokens_per_second * update_seconds == pytest.approx(7.0)


def test_checkpoints_hold_weights_and_two_moments_in_float32():
    assert checkpoint_bytes(1000, keep_checkpoints=2, average_checkpoints=1) == 4 * 1000 * (4 * 3 + 1)


def test_the_state_of_a_training_is_four_numbers_a_parameter():
    assert state_bytes(1000) == 4 * checkpoint_bytes(1000, keep_checkpoints=-1, average_checkpoints=0)

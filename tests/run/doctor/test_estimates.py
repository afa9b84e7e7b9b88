"""Estimates of time and room from a few updates and the settings."""

import math

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


@pytest.mark.parametrize(("batches", "updates"), [(3, 3), (TIMED_UPDATES + 9, TIMED_UPDATES)])
def test_a_step_is_timed_over_the_first_batches(batches, updates):
    seconds, tokens_per_second, timed = time_step(lambda batch: TrainStepMetrics(0.0, 7.0, 0.0), [None] * batches)
    assert timed == updates
    assert tokens_per_second * seconds == pytest.approx(7.0)


def test_checkpoints_hold_weights_and_two_moments_in_float32():
    assert checkpoint_bytes(1000, keep_checkpoints=2, average_checkpoints=1) == 4 * 1000 * (4 * 3 + 1)


def test_the_state_of_a_training_is_four_numbers_a_parameter():
    assert state_bytes(1000) == 4 * checkpoint_bytes(1000, keep_checkpoints=-1, average_checkpoints=0)

"""The means of logs, over the updates since the last reading."""

import pytest

from qkv.training.loop import TrainingClock, TrainingMeter
from qkv.training.progress import Progress
from qkv.training.step import TrainStepMetrics

FIRST, SECOND = TrainStepMetrics(12.0, 3.0, 3.0), TrainStepMetrics(2.0, 4.0, 4.0)


def test_the_loss_is_a_mean_over_tokens_and_the_norm_a_root_of_mean_squares():
    meter = TrainingMeter()
    meter.add(FIRST)
    meter.add(SECOND)
    assert meter.read(5.0) == pytest.approx({"loss": 2.0, "gradient_norm": 12.5**0.5})


def test_each_reading_covers_the_updates_since_the_last_and_an_empty_one_repeats_it():
    meter = TrainingMeter()
    meter.add(FIRST)
    meter.read(5.0)
    meter.add(SECOND)
    reading = meter.read(7.0)
    assert reading == {"loss": 0.5, "gradient_norm": 4.0, "tokens_per_second": 2.0}
    assert meter.read(8.0) == reading


def test_the_speed_leaves_out_the_time_of_a_validation():
    meter = TrainingMeter()
    meter.read(5.0)
    meter.add(SECOND)
    meter.leave_out(90.0)
    meter.add(SECOND)
    assert meter.read(99.0)["tokens_per_second"] == 2.0


def test_a_meter_continues_with_what_was_not_read_before_an_interruption():
    straight, stopped, resumed, again = (TrainingMeter() for _ in range(4))
    progress = Progress()
    straight.add(FIRST)
    stopped.add(FIRST)
    stopped.save_to(progress)
    resumed.restore(progress)
    for meter in (straight, resumed):
        meter.add(SECOND)
    assert resumed.read(3.0) == straight.read(3.0)
    resumed.save_to(progress)
    assert progress.unread == []
    again.restore(progress)
    assert again.read(4.0) == resumed.last


def test_the_clock_counts_on_from_earlier_sessions():
    clock = TrainingClock(61.0)
    assert 61.0 <= clock.seconds() <= clock.seconds()

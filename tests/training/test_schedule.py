"""Learning rates at updates where they can be computed by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.training.schedule import ClockSchedule, WarmupSchedule

RATES = {
    # Updates count from 0, so the first of a warm-up of 4 has a quarter of the peak and the fourth has all of it.
    "constant": {0: 0.5, 1: 1, 2: 1.5, 3: 2, 4: 2, 100: 2},
    "inverse_sqrt": {0: 0.5, 1: 1, 3: 2, 15: 1, 63: 0.5},
    "linear": {0: 0.5, 3: 2, 8: 1, 10: 0.5, 12: 0, 20: 0},
    "cosine": {0: 0.5, 3: 2, 6: 1 + 0.5**0.5, 8: 1, 10: 1 - 0.5**0.5, 12: 0, 20: 0},
}


def schedule_of(kind, warmup_updates=4):
    return WarmupSchedule(kind, peak=2.0, warmup_updates=warmup_updates, total_updates=12)


@pytest.mark.parametrize("kind", RATES)
def test_rates_equal_those_computed_by_hand(kind):
    schedule = schedule_of(kind)
    for update, rate in RATES[kind].items():
        assert float(schedule(update)) == pytest.approx(rate, abs=1e-6), update


@pytest.mark.parametrize("kind", RATES)
def test_the_peak_is_never_passed_and_the_rate_falls_only_after_it(kind):
    rates = [float(schedule_of(kind)(update)) for update in range(20)]
    assert max(rates) == 2
    assert (np.diff(rates[:4]) > 0).all()
    assert (np.diff(rates[3:]) <= 0).all()
    assert min(rates) >= 0


@pytest.mark.parametrize("kind", RATES)
def test_without_warm_up_the_first_update_has_the_peak(kind):
    assert float(schedule_of(kind, warmup_updates=0)(0)) == 2


def test_an_optimiser_follows_the_schedule():
    variable, optimizer = keras.Variable([0.0]), keras.optimizers.SGD(schedule_of("constant"))
    steps = []
    for _ in range(5):
        before = float(variable[0])
        optimizer.apply([keras.ops.ones(1)], [variable])
        steps.append(before - float(variable[0]))
    assert steps == pytest.approx([0.5, 1, 1.5, 2, 2])


def clock_rates(schedule, updates):
    return [float(schedule(update)) for update in updates]


def test_a_rate_by_the_clock_rises_and_stays_until_the_total_is_known_and_then_falls_to_zero():
    schedule = ClockSchedule(2.0, 4)
    assert clock_rates(schedule, [0, 1, 3, 50]) == [0.5, 1, 2, 2]
    schedule.follow([(0, 104)])
    assert clock_rates(schedule, [0, 1, 3, 4, 54, 79, 104, 150]) == [0.5, 1, 2, 2, 1, 0.5, 0, 0]


def test_a_total_of_one_update_has_the_peak():
    schedule = ClockSchedule(1.0, 4)
    schedule.follow([(0, 1)])
    assert clock_rates(schedule, [0, 1]) == [1, 0]


def test_warm_up_by_the_clock_takes_a_share_of_a_short_training():
    schedule = ClockSchedule(1.0, 1000)
    schedule.follow([(0, 200)])
    assert clock_rates(schedule, [14, 29]) == pytest.approx([0.5, 1])
    assert np.argmax(clock_rates(schedule, range(200))) in (29, 30)


def test_a_rate_by_the_clock_falls_from_where_it_is_to_zero_at_each_new_total():
    schedule = ClockSchedule(2.0, 4)
    schedule.follow([(0, 104), (54, 154), (104, 129)])
    assert clock_rates(schedule, [3, 104, 129, 200]) == pytest.approx([2, 0.5, 0, 0], abs=1e-6)
    schedule.follow([(0, 104), (54, 154)])  # 1 after 54 updates, and a hundred are left
    assert clock_rates(schedule, [54, 79, 104, 154]) == pytest.approx([1, 0.75, 0.5, 0])


def test_a_total_that_is_estimated_in_the_warm_up_does_not_change_it():
    once, twice = ClockSchedule(1.0, 40), ClockSchedule(1.0, 40)
    once.follow([(0, 400)])
    twice.follow([(0, 400), (20, 240)])
    assert clock_rates(once, range(40)) == clock_rates(twice, range(40))
    assert clock_rates(twice, [40, 140, 240]) == pytest.approx([1, 0.5, 0])


def test_the_same_total_again_changes_no_bit_of_the_rate():
    once, twice = ClockSchedule(1.0, 7), ClockSchedule(1.0, 7)
    once.follow([(0, 307)])
    twice.follow([(0, 307), (31, 307), (62, 307)])
    assert clock_rates(once, range(310)) == clock_rates(twice, range(310))


def test_setting_the_total_traces_no_graph_again():
    traces, schedule = [], ClockSchedule(1.0, 1)

    @tf.function
    def graph(update):
        traces.append(update)
        return schedule(update)

    assert float(graph(tf.constant(50))) == 1
    schedule.follow([(0, 101)])
    assert float(graph(tf.constant(51))) == pytest.approx(0.5)
    assert len(traces) == 1

"""Learning rates at updates where they can be computed by hand."""

import keras
import numpy as np
import pytest

from pipeline.training.schedule import WarmupSchedule

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


@pytest.mark.parametrize("kind", RATES)
def test_a_schedule_survives_its_config(kind):
    schedule = schedule_of(kind)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert again.get_config() == schedule.get_config()
    assert [float(again(update)) for update in range(15)] == [float(schedule(update)) for update in range(15)]


def test_an_optimiser_follows_the_schedule():
    variable, optimizer = keras.Variable([0.0]), keras.optimizers.SGD(schedule_of("constant"))
    steps = []
    for _ in range(5):
        before = float(variable[0])
        optimizer.apply([keras.ops.ones(1)], [variable])
        steps.append(before - float(variable[0]))
    assert steps == pytest.approx([0.5, 1, 1.5, 2, 2])


def test_an_unknown_kind_and_a_linear_one_without_an_end_are_refused():
    with pytest.raises(ValueError, match="found 'sine'"):
        schedule_of("sine")
    with pytest.raises(ValueError, match="total_updates"):
        WarmupSchedule("linear", peak=1.0, warmup_updates=4)

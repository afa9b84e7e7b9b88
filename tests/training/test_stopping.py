"""The rules by which training ends, one by one."""

import signal

import pytest
import tensorflow as tf

from pipeline.training.checkpoint import Progress
from pipeline.training.stopping import INTERRUPTED, Limits, StoppingRules

ONE_WORKER = tf.distribute.get_strategy()


def make_rules(patience=None, strategy=ONE_WORKER, agree_every=1, **limits):
    return StoppingRules(Limits(**limits), "bleu", patience, strategy=strategy, agree_every=agree_every)


@pytest.mark.parametrize(
    ("rules", "before", "after", "reason"),
    [
        ({"updates": 5}, Progress(update=4), Progress(update=5), "5 updates"),
        ({"epochs": 2}, Progress(epoch=1, batch=9), Progress(epoch=2), "2 epochs"),
        ({"minutes": 1.5}, Progress(seconds=89), Progress(seconds=90), "1.5 minutes"),
        (
            {"patience": 3},
            Progress(validations_without_gain=2),
            Progress(validations_without_gain=3),
            "3 validations without a better bleu",
        ),
    ],
)
def test_a_rule_ends_training_when_its_limit_is_reached_and_not_before(rules, before, after, reason):
    rules = make_rules(**rules)
    assert rules.reason(before, before.seconds) is None
    assert rules.reason(after, after.seconds) == reason


def test_without_limits_training_never_ends():
    assert make_rules().reason(Progress(10**9, 10**6, 0, 1e9, validations_without_gain=10**6), 1e9) is None


def test_a_callback_can_end_training():
    assert make_rules().reason(Progress(), 0.0, asked_by_callback=True) == "a callback stopped it"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_the_second_raises_and_the_old_handler_returns(number):
    rules, handler = make_rules(), signal.getsignal(number)
    with rules.obeying_signals():
        assert rules.reason(Progress(), 0.0) is None
        signal.raise_signal(number)
        assert rules.reason(Progress(), 0.0) == INTERRUPTED
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == handler


def test_several_workers_end_together_when_one_is_asked_and_agree_every_few_updates():
    class TwoWorkers:
        """Adds up what this worker and another one, whose time is up, say."""

        num_replicas_in_sync = 2

        def run(self, function, args):
            return function(*args)

        def reduce(self, operation, value, axis):
            return value + tf.constant([0.0, 0.0, 1.0])

    rules = make_rules(minutes=1, strategy=TwoWorkers(), agree_every=3)
    assert [rules.reason(Progress(update=update), 5.0) for update in (1, 2, 3)] == [None, None, "1 minutes"]

"""The rules by which training ends, one by one."""

import pytest

from qkv.training import stopping
from qkv.training.progress import Progress
from qkv.training.stopping import INTERRUPTED, Limits, StoppingRules
from tests.support.training import ONE_VOTE


def make_rules(patience=None, votes=ONE_VOTE, **limits):
    return StoppingRules(Limits(**limits), "bleu", patience, votes=votes)


@pytest.mark.parametrize(
    ("rules", "before", "after", "reason"),
    [
        ({"max_updates": 5}, Progress(update=4), Progress(update=5), "5 updates"),
        ({"max_epochs": 2}, Progress(epoch=1, batch=9), Progress(epoch=2), "2 epochs"),
        ({"max_minutes": 1.5}, Progress(seconds=89), Progress(seconds=90), "1.5 minutes"),
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


class TwoWorkers:
    """What this worker and another one say together.

    Args:
        chief: whether this one is the chief.
        others: the votes and the numbers of the other one.
    """

    alone = False

    def __init__(self, chief, others):
        self.is_chief, self.others, self.asked = chief, others, []

    def sums(self, values):
        self.asked.append(values)
        return [own + other for own, other in zip(values, self.others, strict=True)]


def test_several_workers_end_together_when_one_is_asked_and_not_before_the_update_that_the_chief_has_named():
    rules = make_rules(votes=TwoWorkers(False, [0.0, 0.0, 0.0, 3.0, 1.0]))
    assert [rules.reason(Progress(update=update), 5.0) for update in (0, 1, 2)] == [None] * 3
    rules.votes.others = [1.0, 0.0, 0.0, 3.0, 1.0]
    assert rules.reason(Progress(update=3), 5.0) == INTERRUPTED
    assert rules.votes.asked == [[0.0] * 5] * 2


def test_of_the_workers_clocks_the_chiefs_counts():
    for chief, reason in ((True, "1 minutes"), (False, None)):
        rules = make_rules(max_minutes=1, votes=TwoWorkers(chief, [0.0] * 5 if chief else [0.0] * 3 + [1.0, 1.0]))
        assert rules.reason(Progress(update=1), 60.0) == reason


def test_the_chief_lets_about_two_seconds_pass_between_votes(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    rules = make_rules(votes=TwoWorkers(True, [0.0] * 5))
    for update in range(60):
        rules.reason(Progress(update=update), 5.0)
        now[0] += 0.1
    gaps = [values[3] for values in rules.votes.asked]
    assert gaps == [1.0, 20.0, 20.0, 20.0]

"""Several workers agree."""

import pytest
import tensorflow as tf

from pipeline.training.worker_agreement import Agreement


class Replicas:
    """Three replicas: this one and two others, which both say `others`."""

    num_replicas_in_sync = 3

    def __init__(self, others):
        self.others = others

    def run(self, function, args):
        return function(*args)

    def reduce(self, operation, value, axis):
        return value + 2 * tf.constant(self.others)


def test_numbers_of_all_are_added():
    assert Agreement(Replicas([1.0, 0.0])).sums([0.0, 2.0]) == [2.0, 2.0]


@pytest.mark.parametrize(
    ("chief", "others", "expected"),
    [(True, [0.0, 0.0], 1234.0), (False, [500.0, 0.5], 1000.0), (True, [1234.0, 1.0], 1234.0)],
    ids=["the chief itself", "another worker", "replicas of one process"],
)
def test_everyone_gets_the_number_of_the_chief(chief, others, expected):
    assert Agreement(Replicas(others), chief).of_chief(1234.0) == expected


def test_a_single_replica_asks_nobody():
    agreement = Agreement(tf.distribute.get_strategy())
    assert agreement.alone and agreement.of_chief(7.5) == 7.5

"""Several workers agree."""

from types import SimpleNamespace

import tensorflow as tf

from qkv.training.worker_checks import SingleProcess, WorkerVotes


class Replicas:
    """Three replicas: this one and two others, which both say `others`."""

    def __init__(self, others):
        self.others = others

    def run(self, function, args):
        return function(*args)

    def reduce(self, operation, value, axis):
        assert operation == tf.distribute.ReduceOp.SUM and axis is None
        return value + 2 * tf.constant(self.others)


def test_numbers_of_all_are_added():
    votes = WorkerVotes(Replicas([1.0, 0.0]), SimpleNamespace(is_chief=False))
    assert not votes.alone and not votes.is_chief
    assert votes.sums([0.0, 2.0]) == [2.0, 2.0]


def test_a_single_process_is_the_chief_and_asks_nobody():
    alone = SingleProcess()
    votes = WorkerVotes(tf.distribute.get_strategy(), alone)
    assert votes.alone and votes.is_chief and votes.sums([1.0]) == [1.0]
    assert alone.broadcast_from_chief(7.5, "to go on") == 7.5 and alone.exchange("key", 7.5, "to start") == [7.5]

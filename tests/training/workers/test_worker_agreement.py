"""Several workers agree."""

import tensorflow as tf

from qkv.training.workers import Agreement


class Replicas:
    """Three replicas: this one and two others, which both say `others`."""

    def __init__(self, others):
        self.others = others

    def run(self, function, args):
        return function(*args)

    def reduce(self, operation, value, axis):
        return value + 2 * tf.constant(self.others)


class Others:
    """The workers as one of them sees them; the chief says `said`."""

    def __init__(self, is_chief, said=None):
        self.is_chief, self.said = is_chief, said

    def of_chief(self, value, for_what):
        return value if self.is_chief else self.said


def test_numbers_of_all_are_added():
    assert Agreement(Replicas([1.0, 0.0])).sums([0.0, 2.0]) == [2.0, 2.0]


def test_everyone_gets_the_value_of_the_chief_who_alone_computes_it():
    computed = []

    def compute():
        computed.append(1)
        return {"val_loss": 1.5}

    for is_chief in (True, False):
        agreement = Agreement(Replicas([0.0]), Others(is_chief, {"val_loss": 2.5}))
        assert agreement.by_chief(compute, "to validate") == {"val_loss": 1.5 if is_chief else 2.5}
        assert agreement.of_chief(7, "to go on") == (7 if is_chief else {"val_loss": 2.5})
    assert computed == [1]


def test_a_single_process_asks_nobody():
    agreement = Agreement(tf.distribute.get_strategy())
    assert agreement.alone and agreement.chief and agreement.of_chief(7.5) == 7.5
